"""Measures how near each tool is to its own nearest tools. A tool in a crowd of similar ones (a hub) is near to any request whose
vector is blurred, such as one in another language."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.change import STALE, CatalogChange
from toolcaddie.selection.index.vectors import Vectors
from toolcaddie.util.bounded import Bounded

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

NEIGHBOURS = 10
"""The number of nearest tools whose mean cosine is the measure."""
_SAMPLE = 1_000
"""The largest number of visible tools among which the nearest ones are searched."""
_AT_ONCE = 2_048
"""The number of tools that are compared in one step, which limits memory."""
_MOST_CACHED = 16
"""The number of sets of visible tools whose measures are cached."""


class Hubs:
    """Measures for some rows. They are made at first use for each set of visible tools. Safe for many threads."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._cached: Bounded[bytes, Floats] = Bounded(_MOST_CACHED)
        self._changed = 0
        """The number of tools that have changed since the measures of all tools were made."""

    def changed(self, vectors: Vectors, change: CatalogChange) -> Hubs:
        """Returns the measures of the changed catalog. Those of a large one are measured with a sample, so the measures of tools
        that stay are good enough until many tools have changed."""
        after = Hubs(vectors)
        changed = self._changed + len(change.added) + len(change.removed)
        crowds = self._cached.peek(b"")
        if crowds is not None and len(vectors) > 2 * _SAMPLE and changed <= STALE * len(vectors):
            carried = crowds[change.origin]
            carried[change.added] = after._nearness(change.added, np.arange(len(vectors)))
            after._cached.put(b"", carried)
            after._changed = changed
        return after

    def of(self, visible: Visible | None) -> Floats:
        """Returns the mean cosine of each row to its ten nearest visible rows, itself left out; 0 for hidden rows. Of thousands
        of rows, an even sample stands for all."""
        key = b"" if visible is None else visible.tobytes()
        if (crowds := self._cached.get(key)) is None:
            crowds = self._measured(visible)
            self._cached.put(key, crowds)
        return crowds

    def _measured(self, visible: Visible | None) -> Floats:
        rows = np.arange(len(self._vectors)) if visible is None else np.flatnonzero(visible)
        crowds = np.zeros(len(self._vectors), dtype=np.float32)
        crowds[rows] = self._nearness(rows, rows)
        return crowds

    def _nearness(self, rows: Ints, among: Ints) -> Floats:
        """Returns the mean cosine of these rows to their nearest rows in a sample of `among`. Both are sorted."""
        nearness = np.zeros(len(rows), dtype=np.float32)
        step = max(1, len(among) // _SAMPLE)
        sampled = among[::step]
        if len(sampled) < 2:
            return nearness
        some, count = self._vectors.at(sampled), neighbours(step, len(sampled))
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            nearness[start : start + len(part)] = crowding(self._vectors.at(part), part, some, sampled, count)
        return nearness


def neighbours(step: int, sampled: int) -> int:
    """Returns the number of nearest rows that are compared, if the sample has every `step`-th row."""
    return max(1, min(NEIGHBOURS // step, sampled - 1))


def crowding(rows: Floats, positions: Ints, some: Floats, sampled: Ints, count: int) -> Floats:
    """Returns the mean cosine of these rows to the `count` nearest rows of the sample `some`, themselves left out. Both are
    sorted by position."""
    cosines = rows @ some.T
    at = np.minimum(np.searchsorted(sampled, positions), len(sampled) - 1)
    own = np.flatnonzero(sampled[at] == positions)
    cosines[own, at[own]] = -1.0  # a row is not its own neighbour
    crowds: Floats = np.partition(cosines, -count, axis=1)[:, -count:].mean(axis=1)
    return crowds
