"""The index of a catalog: facts that are computed once and used by every request, such as rankers, core flags and sizes. The
index of a changed catalog takes over the facts of the unchanged tools from the old index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
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
from toolcaddie.selection.index.languages import CatalogLanguages
from toolcaddie.selection.index.links import Links
from toolcaddie.selection.rankers.categories import Categories
from toolcaddie.util.bounded import Bounded, Limit

_CATALOGS = 64
"""The number of indexes that are cached, unless more catalogs are used at once."""
_MOST_TOOLS = 100_000
"""The largest number of tools of all cached indexes together."""
_MOST_TOKENS = 10_000_000
"""The largest number of tokens of all these tools together."""

_LOOKED_AT = 4
"""The number of latest indexes from which a new index may take over facts."""
_MOST_CHANGED = 1 / 4
"""The largest share of tools that may differ for this; otherwise the index is made from the catalog alone."""

Longs = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Carried:
    """Facts that an index takes over from an earlier one: a value for each tool, and the rankers of the changed catalog."""

    unknown: Longs
    """Positions of the tools whose values must still be computed."""
    core: Visible
    """Flags of the core tools."""
    full: Longs
    """Tokens of each full definition."""
    slim: Longs
    """Tokens of each slimmed definition; -1: not computed yet."""
    rankers: Mapping[str, Ranker]
    links: Links | None = None
    languages: CatalogLanguages | None = None

    @classmethod
    def nothing(cls, size: int) -> Carried:
        """Returns the facts of an index that takes over nothing, for a catalog of `size` tools."""
        return cls(
            unknown=np.arange(size),
            core=np.zeros(size, dtype=np.bool_),
            full=np.zeros(size, dtype=np.int64),
            slim=np.full(size, -1, dtype=np.int64),
            rankers={},
        )


class CatalogIndex:
    """The index of one version of a catalog. It is made once, and used by all threads."""

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
        self.defaults: tuple[int, ...] = tuple(i for i, category in enumerate(catalog.categories) if category.default)
        self.core, self.full = carried.core, carried.full
        for position in carried.unknown.tolist():
            tool = catalog.tools[position]
            self.core[position] = core and catalog.is_core(tool)
            self.full[position] = _tokens(tool)
        self.core_count = int(self.core.sum())
        self.tokens = int(self.full.sum())
        self.whole_selections: dict[Hashable, Selection] = {}
        """Selections of the whole catalog, which do not depend on the messages, by their cache key."""
        self.used = False
        """True after the first selection, which computes the remaining facts."""
        self._slim = carried.slim
        self._core_flags = core
        self._factories = factories
        self._rankers: dict[str, Ranker] = dict(carried.rankers)
        self._links = carried.links
        self._languages = carried.languages
        self._lock = threading.Lock()

    def changed(self, change: CatalogChange) -> CatalogIndex:
        """Returns the index of the catalog after the change. It is equal to a new index, but only facts of new tools are
        computed."""
        with self._lock:
            rankers, links, languages = dict(self._rankers), self._links, self._languages
        following = {name: self._factories[name](change.after, ranker) for name, ranker in rankers.items()}
        carried = Carried(
            unknown=change.added,
            core=_carried(self.core, change, False),
            full=_carried(self.full, change, 0),
            slim=_carried(self._slim, change, -1),
            rankers=following,
            links=None if links is None else links.changed(change),
            languages=None if languages is None else languages.changed(change),
        )
        categories = self.categories.following(change.after)
        return CatalogIndex(change.after, categories, self._factories, core=self._core_flags, carried=carried)

    @cached_property
    def groups(self) -> Groups:
        """The tools by category. Most requests need no groups, and sorting the tools takes longer than other parts of an index
        that follows another."""
        return Groups(self.catalog)

    def ranker(self, name: str) -> Ranker:
        """Returns the catalog's ranker of that name, made at first use."""
        with self._lock:
            if name not in self._rankers:
                self._rankers[name] = self._factories[name](self.catalog)
            return self._rankers[name]

    def links(self) -> Links:
        """Returns the relations between the catalog's tools, which are computed at first use."""
        with self._lock:
            if self._links is None:
                self._links = Links(self.catalog)
            return self._links

    def languages(self) -> CatalogLanguages:
        """Returns the languages of the catalog's texts, which are counted at first use."""
        with self._lock:
            if self._languages is None:
                self._languages = CatalogLanguages(self.catalog)
            return self._languages

    def slim(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the tokens of the slimmed definitions of these tools. They are computed at first use, because most requests
        slim nothing.

        A definition that slimming would not shorten has its full size. Two threads may compute the same numbers twice.
        """
        for position in positions[self._slim[positions] < 0].tolist():
            self._slim[position] = min(_tokens(self.catalog.tools[position], slim=True), int(self.full[position]))
        sizes: npt.NDArray[np.int64] = self._slim[positions]
        return sizes


class IndexCache:
    """A cache of the most recently used indexes, by catalog version. It is limited by the number of catalogs, of their tools, and
    of the tokens of these. The index of a catalog that differs little from a recent one takes over facts from the recent
    index."""

    def __init__(self, make: Callable[[Catalog], CatalogIndex], *, catalogs: int = 0) -> None:
        """`catalogs`: the number of catalogs that are used at once, such as those of tenants."""
        self._make = make
        self._indexes: Bounded[str, CatalogIndex] = Bounded(
            _CATALOGS + catalogs, Limit(_MOST_TOOLS, _size_of), Limit(_MOST_TOKENS, _tokens_of)
        )
        self._lock = threading.Lock()
        self._building: dict[str, threading.Lock] = {}

    def of(self, catalog: Catalog) -> CatalogIndex:
        index = self._indexes.get(catalog.version)
        return self._build(catalog) if index is None else index

    def forget(self, catalog: Catalog) -> None:
        """Drops the index of a catalog that is no longer used."""
        self._indexes.pop(catalog.version)

    def is_ready(self, catalog: Catalog) -> bool:
        """Returns True if a selection from this catalog begins at once, because its index exists and was used before."""
        index = self._indexes.peek(catalog.version)
        return index is not None and index.used

    def _build(self, catalog: Catalog) -> CatalogIndex:
        """Builds an index and returns it. Threads that need the same index wait for the one that builds it; all others go on."""
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
        """Returns an index that takes over facts from a recent one, or None if too many tools differ from all recent ones."""
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
    """Returns the value of each tool of the changed catalog, with `unknown` for new tools."""
    if not len(values):
        return np.full(len(change.after), unknown, dtype=values.dtype)
    after = values[change.origin]
    after[change.added] = unknown
    return after


def _tokens(tool: Tool, *, slim: bool = False) -> int:
    return estimate_tokens(canonical_json(wire_definition(tool, slim=slim)))
