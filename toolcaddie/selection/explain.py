"""Explains a selection in words for people: reasons for each selected tool, and the stage that dropped each other tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt

from toolcaddie.core.selection import DroppedTool, DropStage
from toolcaddie.ports import Ranking, Visible
from toolcaddie.selection.allot import OUTCOMES
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.index.masks import all_visible
from toolcaddie.selection.plan import SelectionPlan, positions_of
from toolcaddie.selection.rankers.categories import CategoryMatches

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
        reasons=reasons(plan, [position])[0],
        signals={name: round(float(signal[position]), 4) for name, signal in plan.ranked.signals.items()},
    )


def reasons(plan: SelectionPlan, positions: Sequence[int]) -> list[tuple[str, ...]]:
    """Returns the reasons for the tools at these positions, selected or dropped."""
    core, pinned, kind = frozenset(plan.core.tolist()), frozenset(plan.pinned.tolist()), plan.pool.kind
    ranked = kind in ("scored", "listed")
    by_ranker = ranker_reasons(plan.index, plan.ranked.rankings, plan.pool.matches, positions) if ranked else []
    tools, links = plan.view.catalog.tools, plan.ranked.link_reasons
    lines: list[tuple[str, ...]] = []
    for number, position in enumerate(positions):
        if position in core:
            lines.append(("core: sent always",))
        elif position in pinned:
            lines.append((f"pinned: {plan.query.essential.get(tools[position].name, 'asked for by name')}",))
        elif kind == "whole":
            lines.append(("the whole catalog fits",))
        elif kind == "defaults" and position in plan.pool.positions:
            lines.append((f"default category {tools[position].category}: nothing matched",))
        else:
            link = links.get(position)
            lines.append((*(by_ranker[number] if ranked else ()), *((link,) if link else ())))
    return lines


def ranker_reasons(
    index: CatalogIndex, rankings: Mapping[str, Ranking], matches: CategoryMatches, positions: Sequence[int]
) -> list[tuple[str, ...]]:
    """Returns the rankers' reasons for each of these tools, those of the categories first."""
    lines = index.categories.reasons_in(matches, positions)
    for name, ranking in rankings.items():
        if name != "categories":
            more = ranking.explain(positions)
            lines = [(*before, *new) for before, new in zip(lines, more, strict=True)]
    return lines


def drops(plan: SelectionPlan) -> tuple[DroppedTool, ...]:
    """Returns every visible tool that was dropped: first the candidates, the best first, then all others in catalog order."""
    return (*dropped_candidates(plan), *_dropped_before(plan))


def dropped_candidates(plan: SelectionPlan, limit: int | None = None) -> list[DroppedTool]:
    """Returns the candidates that were not selected, the best first."""
    ranked = plan.allotment.ranked
    return _drops(plan, ranked[plan.allotment.outcome[ranked] >= OUTCOMES.index("quota")][:limit])


def rounded(scores: Floats, positions: Ints | Sequence[int]) -> list[float]:
    """Returns the scores of some tools, rounded to four digits."""
    values: list[float] = scores[np.array(positions, dtype=np.int64)].astype(np.float64).round(4).tolist()
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
    (drop,) = _drops(plan, numbers[:1])
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


def _drops(plan: SelectionPlan, numbers: Ints) -> list[DroppedTool]:
    """Returns the candidates with these numbers as dropped tools, each with the stage and the limit that dropped it."""
    budget = plan.budget
    details = {
        "quota": f"its category has {plan.allotment.quota} places",
        "max_tools": f"max_tools is {budget.max_tools}",
        "provider_cap": f"the provider takes {budget.provider_cap}",
    }
    positions = plan.pool.positions[numbers]
    stages = [_STAGES[code] for code in plan.allotment.outcome[numbers].tolist()]
    sizes = plan.candidates.slim[numbers].tolist()
    tools = plan.view.catalog.tools
    return [
        DroppedTool(
            name=tools[position].name,
            stage=stage,
            detail=details.get(stage) or f"{size} tokens did not fit into {budget.max_tokens}",
            score=score,
        )
        for position, stage, size, score in zip(
            positions.tolist(), stages, sizes, rounded(plan.scores, positions), strict=True
        )
    ]
