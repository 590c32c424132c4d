"""The intermediate result of a selection, from which the `Selection` and its explanations are made: the candidates, their scores,
and the outcome of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import View
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.ports import Ranking
from toolcaddie.selection.allot import Allotment, Candidates
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.pool import Pool

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class RankedPool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The pool of candidates, and the scores of all tools. If there are rankers, the candidates were chosen by these scores."""

    pool: Pool
    scores: Floats
    rankings: Mapping[str, Ranking] = msgspec.field(default_factory=dict)
    signals: Mapping[str, Floats] = msgspec.field(default_factory=dict)
    floor: float = 0.0
    doubt: float | None = None
    """The probability that no tool fits; None: not estimated."""
    link_reasons: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Reasons for tools whose score was raised because other candidates need them, by position."""


class SelectionPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request, its candidates, and the allotment of its budget. Positions are positions in the catalog."""

    view: View
    query: SelectionQuery
    budget: Budget
    index: CatalogIndex
    ranked: RankedPool
    candidates: Candidates
    allotment: Allotment
    core: Ints
    """Positions of the core tools."""
    pinned: Ints
    """Positions of the pinned and the essential tools."""

    @property
    def pool(self) -> Pool:
        return self.ranked.pool

    @property
    def scores(self) -> Floats:
        return self.ranked.scores

    @property
    def selected(self) -> Ints:
        return self.pool.positions[self.allotment.selected]


def positions_of(view: View, names: Iterable[str]) -> list[int]:
    """Returns the sorted positions of the visible tools with these names."""
    positions = (view.catalog.position(name) for name in names)
    return sorted({position for position in positions if position is not None and view.sees(position)})
