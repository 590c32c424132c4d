"""Makes the pool of a selection: the candidates, their priorities and their groups. `allot` then selects from the pool.

A group is the candidates of one category. Functions name tools by their position in the catalog, and categories by their index in
the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.rankers.categories import CategoryMatches

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_NONE_GUARANTEED = np.zeros(1, dtype=np.bool_)

Kind = Literal["whole", "listed", "scored", "defaults", "nothing"]
"""The way in which tools became candidates: the whole catalog fits the budget; all tools or those of matched categories without
scores; tools by score; tools of default categories because nothing matched; none at all."""


class Pool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The candidates. `positions`, `priority` and `group` have one value for each candidate; the other arrays one for each
    group."""

    kind: Kind
    positions: Ints
    """Catalog position of each candidate."""
    priority: Floats
    """Candidates with a higher priority are served first."""
    group: Ints
    """Number of each candidate's group."""
    group_categories: tuple[int, ...]
    """The category of each group; -1: the group of the tools without a category."""
    guaranteed: Visible
    """Flags of the groups that the request needs."""
    matches: CategoryMatches
    no_match: bool = False
    """True if nothing matched the request."""


def flat(index: CatalogIndex, kind: Kind, eligible: Visible) -> Pool:
    """Returns the pool of all eligible tools, in catalog order. `eligible` has a flag for each tool of the catalog."""
    return _grouped(index, kind, CategoryMatches(), np.flatnonzero(eligible), None, ())


def nothing(index: CatalogIndex) -> Pool:
    """Returns the empty pool of a request that matched nothing."""
    return _grouped(index, "nothing", CategoryMatches(), np.empty(0, dtype=np.int64), None, (), no_match=True)


def by_category(
    index: CatalogIndex,
    kind: Kind,
    matches: CategoryMatches,
    active: Iterable[int],
    priority: Floats | None,
    eligible: Visible,
) -> Pool:
    """Returns the pool of the eligible tools of the categories `active`, category by category in this order. `priority` has a
    value for each tool of the catalog; None: all are equal."""
    active = tuple(active)
    members = [index.groups.members(category) for category in active]
    listed = np.concatenate([np.empty(0, dtype=np.int64), *members])
    positions = listed[eligible[listed]]
    served = priority[positions] if priority is not None else None
    return _grouped(index, kind, matches, positions, served, active, no_match=kind == "defaults" or not active)


def by_score(
    index: CatalogIndex, matches: CategoryMatches, scores: Floats, floor: float, eligible: Visible, *, by_group: bool
) -> Pool:
    """Returns the pool of the eligible tools that score above the floor, whatever their category. If no category matched and
    `by_group` is False, nobody needs the groups, and all tools are in one."""
    positions = np.flatnonzero(eligible & (scores > floor))
    if not (by_group or matches.matched or matches.related):
        return Pool(
            kind="scored",
            positions=positions,
            priority=scores[positions],
            group=np.zeros(len(positions), dtype=np.int64),
            group_categories=(-1,),
            guaranteed=_NONE_GUARANTEED,
            matches=matches,
        )
    return _grouped(index, "scored", matches, positions, scores[positions], (*matches.matched, *matches.related))


def _grouped(
    index: CatalogIndex,
    kind: Kind,
    matches: CategoryMatches,
    positions: Ints,
    priority: Floats | None,
    active: Sequence[int],
    *,
    no_match: bool = False,
) -> Pool:
    """Returns the pool of the tools at these positions, with their groups.

    The groups of the categories `active` come first, in this order, then those of other categories in catalog order, then the
    tools without a category. Groups of matched categories are guaranteed; if nothing matched, those of the default categories.
    Every group has a candidate.
    """
    total = len(index.catalog.categories)
    order = np.arange(total, 2 * total + 1)  # rank of each category; index -1, the last element, stands for no category
    order[list(active)] = np.arange(len(active))
    ranks = order[index.categories.category_of[positions]]
    present = np.bincount(ranks, minlength=2 * total + 1) > 0
    group = (np.cumsum(present) - 1)[ranks]
    of_rank = np.empty(2 * total + 1, dtype=np.int64)
    of_rank[order] = (*range(total), -1)
    group_categories = tuple(of_rank[present].tolist())
    needed = matches.matched if kind != "defaults" else set(active)
    if priority is None:
        priority = np.zeros(len(positions), dtype=np.float32)
    return Pool(
        kind=kind,
        positions=positions,
        priority=priority,
        group=group,
        group_categories=group_categories,
        guaranteed=np.array([category in needed for category in group_categories], dtype=np.bool_),
        matches=matches,
        no_match=no_match,
    )
