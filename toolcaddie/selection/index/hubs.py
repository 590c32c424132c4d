"""Measures how near each tool is to its own nearest tools. A tool in a crowd of similar ones (a hub) is near to any request whose
vector is blurred, such as one in another language."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.util.bounded import Bounded

Floats = npt.NDArray[np.float32]

NEIGHBOURS = 10
"""The number of nearest tools whose mean cosine is the measure."""
_SAMPLE = 1_000
"""The largest number of visible tools among which the nearest ones are searched."""
_AT_ONCE = 2_048
"""The number of tools that are compared in one step, which limits memory."""
_MOST_CACHED = 16
"""The number of sets of visible tools whose measures are cached."""


class Hubs:
    """Measures for the rows of `matrix`, float32 [n, d]. They are made at first use for each set of visible tools. Safe for many
    threads."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix = matrix
        self._cached: Bounded[bytes, Floats] = Bounded(_MOST_CACHED)

    def of(self, visible: Visible | None) -> Floats:
        """Returns the mean cosine of each row to its ten nearest visible rows, itself left out; 0 for hidden rows. Of thousands
        of rows, an even sample stands for all."""
        key = b"" if visible is None else visible.tobytes()
        if (crowds := self._cached.get(key)) is None:
            crowds = self._measured(visible)
            self._cached.put(key, crowds)
        return crowds

    def _measured(self, visible: Visible | None) -> Floats:
        rows = np.arange(len(self._matrix)) if visible is None else np.flatnonzero(visible)
        crowds = np.zeros(len(self._matrix), dtype=np.float32)
        step = max(1, len(rows) // _SAMPLE)
        some = self._matrix[rows[::step]]
        count = max(1, min(NEIGHBOURS // step, len(some) - 1))
        if len(some) < 2:
            return crowds
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            cosines = self._matrix[part] @ some.T
            own = np.flatnonzero(np.arange(start, start + len(part)) % step == 0)
            cosines[own, (start + own) // step] = -1.0  # a row is not its own neighbour
            nearest = np.partition(cosines, -count, axis=1)[:, -count:]
            crowds[part] = nearest.mean(axis=1)
        return crowds
