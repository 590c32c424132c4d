"""Ranking by name: how much of a tool's name the request says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog, CatalogChange, Mask
from toolcaddie.ports import QueryWords, Ranker
from toolcaddie.selection.index.postings import Postings, postings_after, postings_of
from toolcaddie.selection.remembered import Remembered

Floats = npt.NDArray[np.float32]

_WORTH_SAYING = 0.5


class Mentions:
    """Each tool by the part of its name that was said, rare words counting more, squared: half a name is said by chance, a
    whole one hardly ever. The words may stand anywhere in the request; stop words count like others, because a name that
    holds them means them."""

    name = "mentions"
    calibrated = True

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._last = Remembered[Floats]()

    def scores(self, words: QueryWords, mask: Mask | None) -> Floats:
        postings = self._postings
        asked, scope = postings.asked(words), postings.scope(mask)
        said = postings.named(asked.ids, asked.nearest[asked.term] * scope.rarity[asked.ids]) / scope.names
        if mask is not None:
            said[~mask] = 0.0
        return self._last.keep(words, np.square(said))

    def changed(self, change: CatalogChange) -> Ranker:
        return Mentions(postings_after(change, self._postings))

    def reasons(self, words: QueryWords, positions: Sequence[int]) -> Sequence[tuple[str, ...]]:
        scores = self._last.of(words)
        if scores is None:
            return [()] * len(positions)
        return [_told(score) for score in scores[np.array(positions, dtype=np.int64)].tolist()]


def factory(catalog: Catalog) -> Ranker:
    return Mentions(postings_of(catalog))


def _told(score: float) -> tuple[str, ...]:
    if score < _WORTH_SAYING:
        return ()
    return ("named",) if score > 0.99 else ("most of its name was said",)
