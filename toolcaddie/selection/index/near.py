"""The vectors of the tools that are near to one request, fetched from a database that holds those of the whole catalog."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.hubs import crowding, neighbours

Floats = npt.NDArray[np.float32]
Halves = npt.NDArray[np.float16]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Near:
    """Takes the place of `Vectors` and `Hubs` for one request and one set of visible tools. Immutable."""

    size: int
    """The number of tools of the catalog."""
    shown: int
    """The number of visible tools."""
    positions: Ints
    """The positions of the visible tools that were fetched, in order."""
    rows: Floats | Halves
    """Their vectors."""
    sampled: Ints
    """The positions of an even sample of all tools, in order."""
    sample_rows: Floats
    """Their vectors, which all requests share: they are never copied into what is held for one request."""
    seen: Visible | slice
    """Which of the sample are visible."""
    has_graph: bool = True
    """True: `cosines` knows only the nearest rows."""

    @classmethod
    def all_of(cls, size: int, positions: Ints, rows: Floats, most: int) -> Near:
        """Returns the vectors of all visible tools; `most`: the size of the sample."""
        step = max(1, len(positions) // most)
        return cls(
            size=size,
            shown=len(positions),
            positions=positions,
            rows=rows,
            sampled=positions[::step],
            sample_rows=rows[::step],
            seen=slice(None),
            has_graph=False,
        )

    def __len__(self) -> int:
        return self.size

    def cosines(self, query: Floats, mask: Visible | None = None) -> Floats:
        """Returns the cosines of a query to all tools; 0 for those that were not fetched."""
        cosines = np.zeros(self.size, dtype=np.float32)
        cosines[self.positions] = self._floats() @ query
        return cosines

    def sample(self, visible: Visible | None, most: int) -> Ints:
        """Returns the positions of the sample, whose size was chosen before."""
        return self.sampled[self.seen]

    def at(self, positions: Ints | slice) -> Floats:
        """Returns the rows of the sample, whose `positions` are those that `sample` returns."""
        return self.sample_rows[self.seen]

    def of(self, visible: Visible | None) -> Floats:
        """Returns the mean cosine of each tool to the nearest tools of the sample (see `Hubs`); 0 for those that were not
        fetched."""
        crowds = np.zeros(self.size, dtype=np.float32)
        sampled, some = self.sampled[self.seen], self.sample_rows[self.seen]
        if len(sampled) > 1:
            count = neighbours(max(1, self.shown // len(sampled)), len(sampled))
            crowds[self.positions] = crowding(self._floats(), self.positions, some, sampled, count)
            crowds[sampled] = crowding(some, sampled, some, sampled, count)
        return crowds

    def _floats(self) -> Floats:
        floats: Floats = self.rows.astype(np.float32, copy=False)
        return floats
