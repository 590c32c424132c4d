"""Strategy `direct`: the selection itself, growing at the end only.

Tools stand before system prompt and messages in what a provider caches, so a tool that is moved or removed re-bills the
whole conversation behind it. Hence: what was sent stays where it was; what is new comes last; and only when that no longer
fits is the array made anew, which the note says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from toolcaddie.errors import BudgetError
from toolcaddie.ports import DeliveryPlan
from toolcaddie.run import Budget, DeliveredTool, Delivery
from toolcaddie.schema import estimate_tokens, wire_definition


def plan(plan: DeliveryPlan) -> Delivery:
    """Meta tools, then what was sent before, then what the selection adds, in catalog order.

    Raises `BudgetError` when even the fresh selection is over the cap: that is a selection made for another budget.
    """
    known = {sent.name for sent in plan.delivered}
    chosen = [DeliveredTool(name=picked.tool.name, slim=picked.slim) for picked in plan.selection.tools]
    additions = [tool for tool in chosen if tool.name not in known]
    kept = [sent for sent in plan.delivered if plan.view.get(sent.name) is not None]
    lost = len(plan.delivered) - len(kept)
    grown = delivery_of("direct", plan, [*kept, *additions], reused=lost == 0, note=_note(kept, additions, lost))
    if _fits(grown, plan.budget):
        return grown
    if not chosen:  # nothing to choose anew from: what was sent stays, as far as it fits
        return _cut(plan, kept)
    if not plan.delivered:
        raise BudgetError(
            f"{len(grown.definitions)} tools with {grown.tokens} tokens were selected for a limit of "
            f"{plan.budget.provider_cap} tools and {plan.budget.max_tokens} tokens"
        )
    return delivery_of(
        "direct",
        plan,
        chosen,
        reused=False,
        note=f"made anew with {len(chosen)} tools: {len(additions)} more did not fit; re-bills the cached prefix",
    )


def _cut(plan: DeliveryPlan, kept: list[DeliveredTool]) -> Delivery:
    while True:
        kept = kept[:-1]
        delivery = delivery_of("direct", plan, kept, reused=False, note=f"cut to the {len(kept)} tools that still fit")
        if not kept or _fits(delivery, plan.budget):
            return delivery


def delivery_of(
    strategy: Literal["direct", "compact"],
    plan: DeliveryPlan,
    tools: Sequence[DeliveredTool],
    *,
    reused: bool,
    note: str,
) -> Delivery:
    """The delivery of the plan's meta tools and these."""
    definitions = [wire_definition(meta) for meta in plan.meta]
    for sent in tools:
        tool = plan.view.get(sent.name)
        assert tool is not None, f"{sent.name} was planned but is not in the view"
        definitions.append(wire_definition(tool, slim=sent.slim))
    encoded = [msgspec.json.encode(definition) for definition in definitions]
    return Delivery(
        strategy=strategy,
        definitions=tuple(definitions),
        meta=tuple(meta.name for meta in plan.meta),
        tools=tuple(tools),
        prefix_digest=hashlib.sha256(b",".join(encoded)).hexdigest(),
        tokens=sum(map(estimate_tokens, encoded)),
        tokens_all=plan.selection.tokens_all,
        reused=reused,
        note=note,
    )


def _fits(delivery: Delivery, budget: Budget) -> bool:
    within_cap = budget.provider_cap is None or len(delivery.definitions) <= budget.provider_cap
    return within_cap and (budget.max_tokens is None or delivery.tokens <= budget.max_tokens)


def _note(kept: Sequence[DeliveredTool], additions: Sequence[DeliveredTool], lost: int) -> str:
    if lost:
        return f"{lost} tools sent before are gone; {len(kept)} kept, {len(additions)} added"
    if not kept:
        return f"first delivery of this conversation: {len(additions)} tools"
    return f"{len(kept)} tools sent before kept in place, {len(additions)} added at the end"
