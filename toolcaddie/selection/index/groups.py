"""The tools of a catalog, grouped by category."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.selection.index.change import Positions, category_of


class Groups:
    """Positions of the tools of each category, and the place of each tool within its category."""

    def __init__(self, catalog: Catalog) -> None:
        categories = category_of(catalog)
        self._members = np.argsort(categories, kind="stable")
        self._starts = np.cumsum(np.bincount(categories + 2, minlength=len(catalog.categories) + 2))
        place = np.empty(len(catalog), dtype=np.float32)
        place[self._members] = np.arange(len(catalog)) - self._starts[categories[self._members] + 1]
        self.place: npt.NDArray[np.float32] = place
        """For each tool, the number of tools of the same category before it."""

    def members(self, category: int) -> Positions:
        """Returns the positions of a category's tools, in catalog order. Do not write to the array."""
        return self._members[self._starts[category + 1] : self._starts[category + 2]]
