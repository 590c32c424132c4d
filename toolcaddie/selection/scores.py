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

WEIGHTS: Mapping[str, float] = {"categories": 0.5, "characters": 0.7, "mentions": 0.4}
"""What a ranker counts beside a ranker that counts 1. A keyword says which drawer, words say which tool in it."""

FLOOR = 0.05
"""A tool that scores less than this part of the best one is left out: it shares a common word with the request, no more."""

NOTHING_FITS = 0.03
"""What the best tool must score, unless a keyword hit. Below it the request shares hardly a word with any tool."""


def scored(
    index: CatalogIndex, names: Sequence[str], words: QueryWords, found: Found, mask: Mask | None
) -> tuple[dict[str, Floats], Floats]:
    """What each ranker says, 0 to 1, and their weighted mean.

    A ranker that is not calibrated is stretched so that its best tool has 1.
    """
    signals = {
        name: index.categories.scores_of(found, mask) if name == "categories" else _said(index, name, words, mask)
        for name in names
    }
    total = sum(WEIGHTS.get(name, 1.0) for name in signals)
    scores = np.zeros(index.size, dtype=np.float32)
    for name, signal in signals.items():
        scores += signal * np.float32(WEIGHTS.get(name, 1.0) / total)
    return signals, scores


def floor_of(scores: Floats, found: Found) -> float:
    """What a tool must score more than. Where no keyword hit and even the best is too weak, all are under it."""
    best = float(scores.max(initial=0.0))
    return FLOOR * best if found.matched or best >= NOTHING_FITS else NOTHING_FITS


def _said(index: CatalogIndex, name: str, words: QueryWords, mask: Mask | None) -> Floats:
    """A ranker's scores. It may come from outside: what it says of hidden tools, below 0 or beyond numbers is thrown away,
    and what it says above 1 is brought down."""
    ranker = index.ranker(name)
    raw = np.asarray(ranker.scores(words, mask), dtype=np.float32)
    if raw.shape != (index.size,):
        raise ConfigError(
            f"ranker {name!r} gave scores of shape {raw.shape}; it must give one for each of {index.size} tools"
        )
    raw = np.maximum(raw, np.float32(0.0))  # a copy: what is changed below is not the ranker's own
    if mask is not None:
        raw[~mask] = 0.0
    best = raw.max(initial=0.0)
    if not np.isfinite(best):
        raw[~np.isfinite(raw)] = 0.0
        best = raw.max(initial=0.0)
    calibrated = getattr(ranker, "calibrated", False)
    return raw if best == 0 or (calibrated and best <= 1) else raw / best
