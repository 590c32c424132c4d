"""Catalogs of our tools joined with a caller's own, reused as long as the caller sends the same tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Tool
from toolcaddie.util.bounded import Bounded, Limit

_Key = tuple[tuple[int, ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    theirs: tuple[Tool, ...]
    """Kept alive, because the cache key is made of their identities."""
    catalog: Catalog
    size: int
    """Bytes of the caller's tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """The latest result: a request asks for it several times, and a key of hundreds of identities costs time."""

    theirs: tuple[Tool, ...]
    version: str
    catalog: Catalog


class MergedCatalogs:
    """The most recently used catalogs: up to `most` of them, with `tools` tools and `size` bytes of callers' definitions
    together.

    The tools' identities are the key, not the list's: a list may change, a tool cannot. Safe for many threads.
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
        """Returns the joined catalog; of two tools with one name the caller's wins."""
        theirs = tuple(theirs)  # the same object, if it is a tuple
        last = self._last
        if last is not None and last.theirs is theirs and last.version == ours.version:
            return last.catalog
        catalog = self._joined(theirs, ours)
        self._last = _Last(theirs=theirs, version=ours.version, catalog=catalog)
        return catalog

    def _joined(self, theirs: tuple[Tool, ...], ours: Catalog) -> Catalog:
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
