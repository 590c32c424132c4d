"""Joins the operator's catalog with the tools that a caller sends in a request.

A joined catalog is used again as long as the caller sends the same tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Tool
from toolcaddie.util.bounded import Bounded, Limit

_Key = tuple[tuple[int, ...], str]
"""The identities of the caller's tools, and the version of the operator's catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    theirs: tuple[Tool, ...]
    """The caller's tools. They must stay alive, because the cache key consists of their identities."""
    catalog: Catalog
    size: int
    """Bytes of the caller's tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """The latest result. A request needs it several times, and making a key of hundreds of identities takes time."""

    theirs: tuple[Tool, ...]
    version: str
    catalog: Catalog


class MergedCatalogs:
    """A cache of joined catalogs: at most `most`, in total with at most `tools` tools and `size` bytes of callers' definitions.

    `theirs` are the tools of the caller, `ours` is the catalog of the operator. A catalog is found by the identities of the
    tools, not by that of their list: a list may change, a tool cannot. Safe for many threads.
    """

    def __init__(self, *, most: int = 256, tools: int = 100_000, size: int = 32 * 1024 * 1024) -> None:
        self._entries: Bounded[_Key, _Entry] = Bounded(most, Limit(tools, _tools), Limit(size, _bytes))
        self._last: _Last | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def cached(self, theirs: Sequence[Tool], ours: Catalog) -> Catalog | None:
        """Returns the joined catalog if it was made before, else None."""
        last = self._last
        if last is not None and last.theirs is theirs and last.version == ours.version:
            return last.catalog
        entry = self._entries.peek((tuple(map(id, theirs)), ours.version))
        return None if entry is None else entry.catalog

    def of(self, theirs: Sequence[Tool], ours: Catalog) -> Catalog:
        """Returns the joined catalog. If both have a tool of the same name, the caller's tool is used."""
        theirs = tuple(theirs)  # a tuple stays the same object
        last = self._last
        if last is not None and last.theirs is theirs and last.version == ours.version:
            return last.catalog
        catalog = self._joined(theirs, ours)
        self._last = _Last(theirs=theirs, version=ours.version, catalog=catalog)
        return catalog

    def _joined(self, theirs: tuple[Tool, ...], ours: Catalog) -> Catalog:
        """Returns the joined catalog from the cache, or makes it and puts it there."""
        key = (tuple(map(id, theirs)), ours.version)
        if (entry := self._entries.get(key)) is not None:
            return entry.catalog
        names = {tool.name for tool in theirs}
        others = (tool for tool in ours.tools if tool.name not in names)
        catalog = Catalog.of([*theirs, *others], ours.categories, check_schemas=False, before=ours)
        entry = _Entry(theirs=theirs, catalog=catalog, size=len(canonical_json(theirs)))
        return self._entries.put_if_absent(key, entry).catalog


def _tools(entry: _Entry) -> int:
    return len(entry.catalog)


def _bytes(entry: _Entry) -> int:
    return entry.size
