"""The candidates of a selection, their order and their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.rankers.categories import CategoryMatches

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

Kind = Literal["whole", "listed", "scored", "defaults", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """Candidates as catalog positions, in list order, and how they came to be candidates."""

    kind: Kind
    positions: Ints
    priority: Floats
    group: Ints
    group_categories: tuple[int, ...]
    """The category of each group, -1 for tools without one."""
    guaranteed: Visible
    matches: CategoryMatches
    no_match: bool = False


def flat(index: CatalogIndex, kind: Kind, eligible: Visible) -> Pool:
    """Returns all eligible tools, in catalog order, grouped by category."""
    return _grouped(index, kind, CategoryMatches(), np.flatnonzero(eligible), None, ())


def nothing(index: CatalogIndex) -> Pool:
    return _grouped(index, "nothing", CategoryMatches(), np.empty(0, dtype=np.int64), None, (), no_match=True)


def by_category(
    index: CatalogIndex,
    kind: Kind,
    matches: CategoryMatches,
    active: Iterable[int],
    priority: Floats | None,
    eligible: Visible,
) -> Pool:
    """Returns the tools of some categories, category by category in the order of `active`. `priority` is by catalog position."""
    active = tuple(active)
    members = [index.groups.members(category) for category in active]
    listed = np.concatenate([np.empty(0, dtype=np.int64), *members])
    positions = listed[eligible[listed]]
    served = priority[positions] if priority is not None else None
    return _grouped(index, kind, matches, positions, served, active, no_match=kind == "defaults" or not active)


def by_score(index: CatalogIndex, matches: CategoryMatches, scores: Floats, floor: float, eligible: Visible) -> Pool:
    """Returns the tools that score above the floor, whatever their category."""
    positions = np.flatnonzero(eligible & (scores > floor))
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
    """Returns a pool with groups in the order of `active`, then other categories in catalog order, then tools without one.

    The groups that the request needs are guaranteed: matched, named, or the defaults. There are no groups without a candidate.
    """
    total = len(index.catalog.categories)
    order = np.arange(total, 2 * total + 1)  # the last place is index -1: no category
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
