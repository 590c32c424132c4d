"""What is worked out once for a catalog and used by every request on it: rankers, core flags, sizes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping

import numpy as np
import numpy.typing as npt

from toolcaddie.catalog import Catalog, Mask
from toolcaddie.ports import Ranker, RankerFactory
from toolcaddie.run import Selection
from toolcaddie.schema import canonical_json, estimate_tokens, wire_definition
from toolcaddie.selection.categories import Categories
from toolcaddie.selection.links import Links
from toolcaddie.tool_types import Tool

_MOST_CATALOGS = 64
_MOST_TOOLS = 100_000
_MOST_TOKENS = 10_000_000


class CatalogIndex:
    """Made once per catalog version; read by any thread."""

    def __init__(
        self, catalog: Catalog, categories: Categories, factories: Mapping[str, RankerFactory], *, core: bool
    ) -> None:
        self.size = len(catalog)
        self.categories = categories
        self.core: Mask = np.array([core and catalog.is_core(tool) for tool in catalog.tools], dtype=np.bool_)
        self.members: tuple[npt.NDArray[np.int64], ...] = tuple(
            np.array(catalog.positions_in(category.name), dtype=np.int64) for category in catalog.categories
        )
        self.place: npt.NDArray[np.float32] = np.zeros(self.size, dtype=np.float32)
        for members in self.members:
            self.place[members] = np.arange(len(members))
        self.defaults: tuple[int, ...] = tuple(i for i, category in enumerate(catalog.categories) if category.default)
        self.full: npt.NDArray[np.int64] = np.array([_tokens(tool) for tool in catalog.tools], dtype=np.int64)
        self.tokens = int(self.full.sum())
        self.settled: dict[Hashable, Selection] = {}
        """Selections that do not depend on what is asked: everything fits. By what they do depend on."""
        self._slim = np.full(self.size, -1, dtype=np.int64)
        self._catalog = catalog
        self._factories = factories
        self._rankers: dict[str, Ranker] = {}
        self._links: Links | None = None
        self._lock = threading.Lock()

    def ranker(self, name: str) -> Ranker:
        """The catalog's ranker of that name, made when first asked for."""
        with self._lock:
            if name not in self._rankers:
                self._rankers[name] = self._factories[name](self._catalog)
            return self._rankers[name]

    def links(self) -> Links:
        """What the catalog's tools need of each other, worked out when first asked for."""
        with self._lock:
            if self._links is None:
                self._links = Links(self._catalog)
            return self._links

    def slim(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tokens of the slimmed definitions, worked out when first asked for: most requests never slim anything.

        A definition that slimming would not shorten keeps its full size. Two threads may both do the work, and get the
        same numbers.
        """
        for position in positions[self._slim[positions] < 0].tolist():
            self._slim[position] = min(_tokens(self._catalog.tools[position], slim=True), int(self.full[position]))
        sizes: npt.NDArray[np.int64] = self._slim[positions]
        return sizes


class IndexCache:
    """The indexes used last, by catalog version; bounded by catalogs, by their tools together and by those tools' sizes."""

    def __init__(self, make: Callable[[Catalog], CatalogIndex]) -> None:
        self._make = make
        self._kept: OrderedDict[str, CatalogIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._building: dict[str, threading.Lock] = {}

    def of(self, catalog: Catalog) -> CatalogIndex:
        with self._lock:
            if (index := self._kept.get(catalog.version)) is not None:
                self._kept.move_to_end(catalog.version)
                return index
            building = self._building.setdefault(catalog.version, threading.Lock())
        with building:  # one thread builds, the others of this version wait for it, and everybody else goes on
            with self._lock:
                index = self._kept.get(catalog.version)
            return index or self._built(catalog)

    def _built(self, catalog: Catalog) -> CatalogIndex:
        try:
            index = self._make(catalog)
        finally:
            with self._lock:
                self._building.pop(catalog.version, None)
        with self._lock:
            self._kept[catalog.version] = index
            while len(self._kept) > 1 and self._over():
                self._kept.popitem(last=False)
        return index

    def _over(self) -> bool:
        kept = self._kept.values()
        return (
            len(kept) > _MOST_CATALOGS
            or sum(index.size for index in kept) > _MOST_TOOLS
            or sum(index.tokens for index in kept) > _MOST_TOKENS
        )


def _tokens(tool: Tool, *, slim: bool = False) -> int:
    return estimate_tokens(canonical_json(wire_definition(tool, slim=slim)))
