"""Explains a selection in words for people: reasons for each selected tool, and the stage that dropped each other tool.

Most explanations are never read, so a selection has only the values from which they are made (`Grounds`, `Cut`). These hold no
array of all tools but those that a ranker's `explain` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import Budget, DroppedTool, DropStage
from toolcaddie.ports import Ranking, Visible
from toolcaddie.ports.ranking import Reasons
from toolcaddie.selection.allot import OUTCOMES
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.index.masks import all_visible
from toolcaddie.selection.plan import SelectionPlan, positions_of
from toolcaddie.selection.pool import Kind
from toolcaddie.selection.rankers.categories import Categories, CategoryMatches
from toolcaddie.util.lazy import LazySequence

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_STAGES = cast(
    Sequence[DropStage], OUTCOMES
)  # used for dropped tools only, whose outcome is neither 'chosen' nor 'sent'


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reasons why one tool was selected or not."""

    tool: str
    chosen: bool
    stage: str
    """'selected', 'core', 'pinned', 'sent' (before this request), 'hidden', 'unknown', or the stage that dropped the tool."""
    score: float = 0.0
    rank: int | None = None
    """Rank among the candidates, 1 is the best; None: the tool was not a candidate."""
    candidates: int = 0
    """The number of candidates."""
    detail: str = ""
    reasons: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    """The score of the tool by each ranker, 0 to 1."""


def explanation_without_plan(name: str, *, exists: bool) -> Explanation:
    """Returns the explanation of a tool that this caller may not see, or that does not exist."""
    if not exists:
        return Explanation(tool=name, chosen=False, stage="unknown", detail="the catalog has no tool of this name")
    return Explanation(tool=name, chosen=False, stage="hidden", detail="this caller may not see it")


def explanation(plan: SelectionPlan, position: int) -> Explanation:
    """Returns the explanation of the visible tool at this position."""
    stage, detail = _stage(plan, position)
    ranks = np.flatnonzero(plan.pool.positions[plan.allotment.ranked] == position)
    return Explanation(
        tool=plan.view.catalog.tools[position].name,
        chosen=stage in ("selected", "core", "pinned"),
        stage=stage,
        score=round(float(plan.scores[position]), 4),
        rank=int(ranks[0]) + 1 if len(ranks) else None,
        candidates=len(plan.candidates),
        detail=detail,
        reasons=Grounds.of(plan).reasons([position])[0],
        signals={name: round(float(signal[position]), 4) for name, signal in plan.ranked.signals.items()},
    )


class RankerReasons(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons of the rankers for tools: their functions that explain scores, the categories that matched, and the relations
    to other candidates."""

    categories: Categories
    matches: CategoryMatches
    explains: tuple[Callable[[Sequence[int]], Reasons], ...]
    links: Mapping[int, str]
    """Reasons for tools that other candidates need, by position."""

    @classmethod
    def of(
        cls,
        index: CatalogIndex,
        rankings: Mapping[str, Ranking],
        matches: CategoryMatches,
        links: Mapping[int, str],
    ) -> RankerReasons:
        explains = tuple(ranking.explain for name, ranking in rankings.items() if name != "categories")
        return cls(categories=index.categories, matches=matches, explains=explains, links=links)

    def reasons(self, positions: Sequence[int]) -> list[tuple[str, ...]]:
        """Returns the reasons for each of these tools: those of the categories first, those of relations last."""
        lines = self.categories.reasons_in(self.matches, positions)
        for explain in self.explains:
            lines = [(*before, *new) for before, new in zip(lines, explain(positions), strict=True)]
        return [
            (*line, self.links[position]) if position in self.links else line
            for line, position in zip(lines, positions, strict=True)
        ]


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The values from which the reasons for the tools of a selection are made."""

    catalog: Catalog
    kind: Kind
    core: frozenset[int]
    """Positions of the core tools."""
    pinned: frozenset[int]
    """Positions of the pinned and the essential tools."""
    essential: Mapping[str, str]
    """Reasons for the essential tools, by name."""
    defaults: frozenset[int]
    """Positions of the tools of default categories, if nothing matched."""
    of_rankers: RankerReasons | None
    """None: no ranker scored the candidates."""

    @classmethod
    def of(cls, plan: SelectionPlan) -> Grounds:
        kind = plan.pool.kind
        scored = kind in ("scored", "listed")
        return cls(
            catalog=plan.view.catalog,
            kind=kind,
            core=frozenset(plan.core.tolist()),
            pinned=frozenset(plan.pinned.tolist()),
            essential=plan.query.essential,
            defaults=frozenset(plan.pool.positions.tolist() if kind == "defaults" else ()),
            of_rankers=RankerReasons.of(plan.index, plan.ranked.rankings, plan.pool.matches, plan.ranked.link_reasons)
            if scored
            else None,
        )

    def reasons(self, positions: Sequence[int]) -> list[tuple[str, ...]]:
        """Returns the reasons for the tools at these positions, selected or dropped."""
        lines = [()] * len(positions) if self.of_rankers is None else self.of_rankers.reasons(positions)
        return [self._reasons(position, line) for position, line in zip(positions, lines, strict=True)]

    def _reasons(self, position: int, of_rankers: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the reasons for one tool. `of_rankers`: those of the rankers."""
        tool = self.catalog.tools[position]
        if position in self.core:
            return ("core: sent always",)
        if position in self.pinned:
            return (f"pinned: {self.essential.get(tool.name, 'asked for by name')}",)
        if self.kind == "whole":
            return ("the whole catalog fits",)
        if position in self.defaults:
            return (f"default category {tool.category}: nothing matched",)
        return of_rankers


def later(
    reasons: Callable[[Sequence[int]], Sequence[tuple[str, ...]]], positions: Sequence[int]
) -> list[LazySequence[str]]:
    """Returns the reasons for the tools at these positions. They are made for all tools at once, when the first is read."""
    lines = LazySequence(partial(reasons, positions))
    return [LazySequence(partial(lines.__getitem__, number)) for number in range(len(positions))]


def drops(plan: SelectionPlan) -> tuple[DroppedTool, ...]:
    """Returns every visible tool that was dropped: first the candidates, the best first, then all others in catalog order."""
    return (*dropped_candidates(plan).tools(), *_dropped_before(plan))


def dropped_candidates(plan: SelectionPlan, limit: int | None = None) -> Cut:
    """Returns the candidates that were not selected, the best first."""
    ranked = plan.allotment.ranked
    return Cut.of(plan, ranked[plan.allotment.outcome[ranked] >= OUTCOMES.index("quota")][:limit])


def rounded(scores: Floats) -> list[float]:
    """Returns scores rounded to four digits."""
    values: list[float] = scores.astype(np.float64).round(4).tolist()
    return values


def _stage(plan: SelectionPlan, position: int) -> tuple[str, str]:
    """Returns the stage of a visible tool (see `Explanation.stage`), and a detail for people; empty: there is none."""
    if position in plan.core:
        return "core", ""
    if position in plan.pinned:
        return "pinned", ""
    if plan.view.catalog.tools[position].name in plan.query.exclude:
        return "sent", "the conversation has it already"
    numbers = np.flatnonzero(plan.pool.positions == position)
    if not len(numbers):
        drop = _drop_before(plan, position)
        return drop.stage, drop.detail
    if OUTCOMES[plan.allotment.outcome[numbers[0]]] == "chosen":
        return "selected", ""
    (drop,) = Cut.of(plan, numbers[:1]).tools()
    return drop.stage, drop.detail


def _dropped_before(plan: SelectionPlan) -> Iterator[DroppedTool]:
    """Yields the visible tools that were not candidates, in catalog order, without core tools, pinned tools, and tools that were
    sent before."""
    outside: Visible = all_visible(plan.view).copy()
    outside[np.concatenate([plan.pool.positions, plan.core, plan.pinned])] = False
    outside[positions_of(plan.view, plan.query.exclude)] = False
    for position in np.flatnonzero(outside).tolist():
        yield _drop_before(plan, position)


def _drop_before(plan: SelectionPlan, position: int) -> DroppedTool:
    score = float(plan.scores[position])
    stage: DropStage = "floor" if score > 0 else "no_match"
    detail = f"score {score:.3f} is under the floor of {plan.ranked.floor:.3f}" if score > 0 else "no ranker found it"
    return DroppedTool(name=plan.view.catalog.tools[position].name, stage=stage, detail=detail, score=round(score, 4))


class Cut(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Candidates that a limit dropped. The arrays have one value for each."""

    catalog: Catalog
    budget: Budget
    quota: int | None
    """The number of places of each category, if there is such a limit."""
    positions: Ints
    outcome: npt.NDArray[np.int8]
    """Index of the limit in `OUTCOMES`."""
    sizes: Ints
    """Tokens of each slimmed definition."""
    scores: Floats

    @classmethod
    def of(cls, plan: SelectionPlan, numbers: Ints) -> Cut:
        """Returns the candidates with these numbers."""
        positions = plan.pool.positions[numbers]
        return cls(
            catalog=plan.view.catalog,
            budget=plan.budget,
            quota=plan.allotment.quota,
            positions=positions,
            outcome=plan.allotment.outcome[numbers],
            sizes=plan.candidates.slim[numbers],
            scores=plan.scores[positions],
        )

    def later(self) -> Sequence[DroppedTool]:
        """Returns the dropped tools, which are made when they are first read."""
        return LazySequence(self.tools) if len(self.positions) else ()

    def tools(self) -> list[DroppedTool]:
        """Returns the dropped tools, each with the stage and the limit that dropped it."""
        details = {
            "quota": f"its category has {self.quota} places",
            "max_tools": f"max_tools is {self.budget.max_tools}",
            "provider_cap": f"the provider takes {self.budget.provider_cap}",
        }
        stages = [_STAGES[code] for code in self.outcome.tolist()]
        return [
            DroppedTool(
                name=self.catalog.tools[position].name,
                stage=stage,
                detail=details.get(stage) or f"{size} tokens did not fit into {self.budget.max_tokens}",
                score=score,
            )
            for position, stage, size, score in zip(
                self.positions.tolist(), stages, self.sizes.tolist(), rounded(self.scores), strict=True
            )
        ]
