"""One score a tool, from what the rankers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolcaddie.catalog import Mask
from toolcaddie.errors import ConfigError
from toolcaddie.ports import QueryWords
from toolcaddie.selection.categories import Found
from toolcaddie.selection.index import CatalogIndex

Floats = npt.NDArray[np.float32]

WEIGHTS: Mapping[str, float] = {"categories": 0.5}
"""What a ranker counts beside a ranker that counts 1. A keyword says which drawer, words say which tool in it."""

FLOOR = 0.05
"""A tool that scores less than this part of the best one is left out: it shares a common word with the request, no more."""


def scored(
    index: CatalogIndex, names: Sequence[str], words: QueryWords, found: Found, mask: Mask | None
) -> tuple[dict[str, Floats], Floats]:
    """What each ranker says, 0 to 1, and their weighted mean.

    A ranker's best tool has 1. Keywords are not stretched so: a hit in an earlier message has that message's weight.
    """
    signals = {
        name: index.categories.scores_of(found, mask) if name == "categories" else _stretched(index, name, words, mask)
        for name in names
    }
    total = sum(WEIGHTS.get(name, 1.0) for name in signals)
    scores = np.zeros(index.size, dtype=np.float32)
    for name, signal in signals.items():
        scores += signal * np.float32(WEIGHTS.get(name, 1.0) / total)
    return signals, scores


def floor_of(scores: Floats) -> float:
    """What a tool must score more than."""
    return FLOOR * float(scores.max(initial=0.0))


def _stretched(index: CatalogIndex, name: str, words: QueryWords, mask: Mask | None) -> Floats:
    """A ranker's scores with its best at 1. It may come from outside: what it says of hidden tools, below 0 or beyond
    numbers is thrown away."""
    raw = np.asarray(index.ranker(name).scores(words, mask), dtype=np.float32)
    if raw.shape != (index.size,):
        raise ConfigError(
            f"ranker {name!r} gave scores of shape {raw.shape}; it must give one for each of {index.size} tools"
        )
    raw = np.where(np.isfinite(raw) & (raw > 0), raw, np.float32(0.0))
    if mask is not None:
        raw[~mask] = 0.0
    best = raw.max(initial=0.0)
    return raw / best if best > 0 else raw
