"""Compares two versions of a catalog, so that facts about unchanged tools need not be computed again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import DIGEST_BYTES, Catalog

_CHANGES = 2
"""The number of changes that are cached: few, because a change keeps two catalogs alive."""

STALE = 1 / 16
"""Share of the tools that may change until what was measured with a sample of a large catalog is measured again."""
_MOST_LOOSE = 64
"""The number of loose rows that every index may have."""
_LOOSE_SHARE = 1 / 16
"""Share of the tools that is added to `_MOST_LOOSE`, so that the index of a large catalog may have more loose rows."""
_BLOCK = 4_096
"""The number of rows that are compared at once."""

Positions = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
"""A row of four numbers for each tool: the SHA-256 of its definition."""


def are_too_many(loose: int, tools: int) -> bool:
    """Returns True if an index of this number of tools has so many loose rows that its arrays should be built again. Loose rows
    are those of removed tools, and late rows: those of tools that were added since the arrays were built."""
    return loose > _MOST_LOOSE + _LOOSE_SHARE * tools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CatalogChange:
    """The difference between a catalog and a later one."""

    before: Catalog
    after: Catalog
    origin: Positions
    """For each tool of `after`, its position in `before`; -1 if the tool or its category is new or changed."""
    added: Positions
    """Positions in `after` of the new and changed tools."""
    removed: Positions
    """Positions in `before` of the tools that are gone or changed."""

    @classmethod
    def between(cls, before: Catalog, after: Catalog) -> CatalogChange:
        """Returns the change between two catalogs. Definitions are compared, so two `Tool` objects with equal definitions are the
        same tool."""
        origin = _aligned(_digests(before), _digests(after))
        if before.categories is not after.categories:
            categories = category_of(after)
            for at, category in enumerate(after.categories):
                earlier = before.category(category.name)
                if earlier is None or (earlier is not category and earlier != category):
                    origin[categories == at] = -1
        added, stays = origin < 0, np.zeros(len(before), dtype=np.bool_)
        stays[origin[~added]] = True
        return cls(
            before=before, after=after, origin=origin, added=np.flatnonzero(added), removed=np.flatnonzero(~stays)
        )


@lru_cache(maxsize=_CHANGES)
def change_between(before: Catalog, after: Catalog) -> CatalogChange:
    """Returns the change between two catalogs. It is cached, because the index and each ranker of a catalog need it."""
    return CatalogChange.between(before, after)


def category_of(catalog: Catalog) -> Positions:
    """Returns the index of each tool's category, -1 for none. The array is the catalog's own memory: do not write to it."""
    return np.frombuffer(catalog.category_of, dtype=np.int64)


def _digests(catalog: Catalog) -> Digests:
    return np.frombuffer(catalog.digests, dtype=np.uint64).reshape(-1, DIGEST_BYTES // 8)


def _aligned(old: Digests, new: Digests) -> Positions:
    """Returns for each row of `new` the index of the equal row of `old`, or -1. Equal rows at the beginning and the end are found
    first, because usually only a range in the middle differs."""
    most = min(len(old), len(new))
    head = _equal_rows(old[:most], new[:most])
    tail = _equal_rows(old[head:][::-1], new[head:][::-1])
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    middle = np.full(len(right), -1, dtype=np.int64)
    if len(left):
        order = np.argsort(left[:, 0])
        at = order[np.minimum(np.searchsorted(left[:, 0], right[:, 0], sorter=order), len(left) - 1)]
        same = (left[at] == right).all(axis=1)
        middle[same] = at[same] + head
    return np.concatenate([np.arange(head), middle, np.arange(len(old) - tail, len(old))])


def _equal_rows(one: Digests, other: Digests) -> int:
    """Returns the number of equal rows at the beginning. Only half of each SHA-256 is compared, which is enough, and in blocks,
    because one difference ends the search."""
    most = min(len(one), len(other))
    for start in range(0, most, _BLOCK):
        left, right = one[start : min(start + _BLOCK, most)], other[start : min(start + _BLOCK, most)]
        differ = np.flatnonzero((left[:, 0] != right[:, 0]) | (left[:, 1] != right[:, 1]))
        if len(differ):
            return start + int(differ[0])
    return most
