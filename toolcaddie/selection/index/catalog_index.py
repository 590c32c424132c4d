"""Facts computed once for a catalog and used by every request on it: rankers, core flags, sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.schema import canonical_json, estimate_tokens, wire_definition
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Ranker, RankerFactory, Visible
from toolcaddie.selection.index.change import CatalogChange, change_between
from toolcaddie.selection.index.groups import Groups
from toolcaddie.selection.index.links import Links
from toolcaddie.selection.rankers.categories import Categories
from toolcaddie.util.bounded import Bounded, Limit

_MOST_CATALOGS = 64
_MOST_TOOLS = 100_000
_MOST_TOKENS = 10_000_000

_LOOKED_AT = 4
_MOST_CHANGED = 1 / 4
"""An index follows from one of the last four, where at most this part of the tools differs."""

Longs = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Carried:
    """State that an index takes over: a value for each of its tools, and rankers that followed the change."""

    unknown: Longs
    """Positions of the tools that have no values yet."""
    core: Visible
    full: Longs
    slim: Longs
    """-1: not computed yet."""
    rankers: Mapping[str, Ranker]
    links: Links | None = None

    @classmethod
    def nothing(cls, size: int) -> Carried:
        return cls(
            unknown=np.arange(size),
            core=np.zeros(size, dtype=np.bool_),
            full=np.zeros(size, dtype=np.int64),
            slim=np.full(size, -1, dtype=np.int64),
            rankers={},
        )


class CatalogIndex:
    """Made once per catalog version; read by any thread."""

    def __init__(
        self,
        catalog: Catalog,
        categories: Categories,
        factories: Mapping[str, RankerFactory],
        *,
        core: bool,
        carried: Carried | None = None,
    ) -> None:
        """`carried`: values taken over from an index of nearly the same tools."""
        carried = carried or Carried.nothing(len(catalog))
        self.catalog = catalog
        self.size = len(catalog)
        self.categories = categories
        self.groups = Groups(catalog)
        self.defaults: tuple[int, ...] = tuple(i for i, category in enumerate(catalog.categories) if category.default)
        self.core, self.full = carried.core, carried.full
        for position in carried.unknown.tolist():
            tool = catalog.tools[position]
            self.core[position] = core and catalog.is_core(tool)
            self.full[position] = _tokens(tool)
        self.tokens = int(self.full.sum())
        self.whole_selections: dict[Hashable, Selection] = {}
        """Selections of the whole catalog, which do not depend on the messages, by their cache key."""
        self.used = False
        """True after a selection: what is computed at first use is computed."""
        self._slim = carried.slim
        self._core_flags = core
        self._factories = factories
        self._rankers: dict[str, Ranker] = dict(carried.rankers)
        self._links = carried.links
        self._lock = threading.Lock()

    def changed(self, change: CatalogChange) -> CatalogIndex:
        """Returns the index of the catalog after the change, equal to a fresh one; only facts of new tools are computed."""
        with self._lock:
            rankers, links = dict(self._rankers), self._links
        following = {name: self._factories[name](change.after, ranker) for name, ranker in rankers.items()}
        carried = Carried(
            unknown=change.added,
            core=_carried(self.core, change, False),
            full=_carried(self.full, change, 0),
            slim=_carried(self._slim, change, -1),
            rankers=following,
            links=None if links is None else links.changed(change),
        )
        categories = self.categories.following(change.after)
        return CatalogIndex(change.after, categories, self._factories, core=self._core_flags, carried=carried)

    def ranker(self, name: str) -> Ranker:
        """Returns the catalog's ranker of that name, made at first use."""
        with self._lock:
            if name not in self._rankers:
                self._rankers[name] = self._factories[name](self.catalog)
            return self._rankers[name]

    def links(self) -> Links:
        """Returns the relations between the catalog's tools, computed at first use."""
        with self._lock:
            if self._links is None:
                self._links = Links(self.catalog)
            return self._links

    def slim(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the tokens of the slimmed definitions, computed at first use: most requests never slim anything.

        A definition that slimming would not shorten keeps its full size. Two threads may both do the work, and get the
        same numbers.
        """
        for position in positions[self._slim[positions] < 0].tolist():
            self._slim[position] = min(_tokens(self.catalog.tools[position], slim=True), int(self.full[position]))
        sizes: npt.NDArray[np.int64] = self._slim[positions]
        return sizes


class IndexCache:
    """The indexes used last, by catalog version; bounded by catalogs, by their tools together and by those tools' sizes. The
    index of a catalog that differs little from a recent one is made from that one's."""

    def __init__(self, make: Callable[[Catalog], CatalogIndex]) -> None:
        self._make = make
        self._indexes: Bounded[str, CatalogIndex] = Bounded(
            _MOST_CATALOGS, Limit(_MOST_TOOLS, _size_of), Limit(_MOST_TOKENS, _tokens_of)
        )
        self._lock = threading.Lock()
        self._building: dict[str, threading.Lock] = {}

    def of(self, catalog: Catalog) -> CatalogIndex:
        index = self._indexes.get(catalog.version)
        return self._build(catalog) if index is None else index

    def is_ready(self, catalog: Catalog) -> bool:
        """Returns True if a selection from it begins at once, with nothing to compute first."""
        index = self._indexes.peek(catalog.version)
        return index is not None and index.used

    def _build(self, catalog: Catalog) -> CatalogIndex:
        """Returns the index. One thread builds it, others that need it wait for that thread, and everybody else goes on."""
        with self._lock:
            building = self._building.setdefault(catalog.version, threading.Lock())
        with building:
            try:
                index = self._indexes.get(catalog.version)
                if index is None:
                    index = self._changed(catalog) or self._make(catalog)
                    self._indexes.put(catalog.version, index)
                return index
            finally:
                with self._lock:
                    self._building.pop(catalog.version, None)

    def _changed(self, catalog: Catalog) -> CatalogIndex | None:
        """Returns the index made from a recent one if few tools differ: a change costs what changed, not what there is."""
        for index in self._indexes.latest()[:_LOOKED_AT]:
            most = _MOST_CHANGED * len(catalog)
            if abs(index.size - len(catalog)) <= most:
                change = change_between(index.catalog, catalog)
                if len(change.added) + len(change.removed) <= most:
                    return index.changed(change)
        return None


def _size_of(index: CatalogIndex) -> int:
    return index.size


def _tokens_of(index: CatalogIndex) -> int:
    return index.tokens


def _carried(values: npt.NDArray[T], change: CatalogChange, unknown: int) -> npt.NDArray[T]:
    """Returns the values of the tools by their positions after the change; `unknown` for new tools."""
    if not len(values):
        return np.full(len(change.after), unknown, dtype=values.dtype)
    after = values[change.origin]
    after[change.added] = unknown
    return after


def _tokens(tool: Tool, *, slim: bool = False) -> int:
    return estimate_tokens(canonical_json(wire_definition(tool, slim=slim)))
