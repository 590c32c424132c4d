"""Strategy `direct`: the selection itself, growing at the end only.

Tools stand before system prompt and messages in what a provider caches, so a tool that is moved or removed re-bills the
whole conversation behind it. Hence: what was sent stays where it was; what is new comes last; and only when that no longer
fits is the array made anew, which the note says.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from toolcaddie.errors import BudgetError
from toolcaddie.ports import DeliveryPlan
from toolcaddie.run import Budget, DeliveredTool, Delivery
from toolcaddie.schema import estimate_tokens, wire_definition
from toolcaddie.tool_types import Tool


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as it is sent."""

    tool: Tool
    wire: dict[str, Any]
    digest: bytes
    tokens: int


class Definitions:
    """Encodes each tool once. Kept by identity (a tool holds dicts, so it has no hash), the ones used last: up to `size` of
    them and of `tokens` together."""

    def __init__(self, size: int = 50_000, *, tokens: int = 16_000_000) -> None:
        self._size = size
        self._tokens_left = tokens
        self._made: OrderedDict[tuple[int, bool], Definition] = OrderedDict()

    def of(self, tool: Tool, *, slim: bool = False) -> Definition:
        key = (id(tool), slim)  # not used again as long as the definition holds the tool
        found = self._made.get(key)
        if found is not None:
            self._made.move_to_end(key)
            return found
        wire = wire_definition(tool, slim=slim)
        encoded = msgspec.json.encode(wire)
        digest = hashlib.sha256(encoded).digest()
        made = self._made[key] = Definition(tool, wire, digest, estimate_tokens(encoded))
        self._tokens_left -= made.tokens
        while len(self._made) > 1 and (len(self._made) > self._size or self._tokens_left < 0):
            self._tokens_left += self._made.popitem(last=False)[1].tokens
        return made


def plan(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    """Meta tools, then what was sent before, then what the selection adds, in catalog order.

    Raises `BudgetError` when even the fresh selection is over the cap: that is a selection made for another budget.
    """
    known = {sent.name for sent in plan.delivered}
    chosen = [DeliveredTool(name=picked.tool.name, slim=picked.slim) for picked in plan.selection.tools]
    additions = [tool for tool in chosen if tool.name not in known]
    kept = [sent for sent in plan.delivered if plan.view.get(sent.name) is not None]
    lost = len(plan.delivered) - len(kept)
    grown = delivery_of(
        "direct", plan, definitions, [*kept, *additions], reused=lost == 0, note=_note(kept, additions, lost)
    )
    if _fits(grown, plan.budget):
        return grown
    if not chosen:  # nothing to choose anew from: what was sent stays, as far as it fits
        return _cut(plan, definitions, kept)
    if not plan.delivered:
        raise BudgetError(
            f"{len(grown.definitions)} tools with {grown.tokens} tokens were selected for a limit of "
            f"{plan.budget.provider_cap} tools and {plan.budget.max_tokens} tokens"
        )
    return delivery_of(
        "direct",
        plan,
        definitions,
        chosen,
        reused=False,
        note=f"made anew with {len(chosen)} tools: {len(additions)} more did not fit; re-bills the cached prefix",
    )


def _cut(plan: DeliveryPlan, definitions: Definitions, kept: list[DeliveredTool]) -> Delivery:
    while True:
        kept = kept[:-1]
        delivery = delivery_of(
            "direct", plan, definitions, kept, reused=False, note=f"cut to the {len(kept)} tools that still fit"
        )
        if not kept or _fits(delivery, plan.budget):
            return delivery


def delivery_of(
    strategy: Literal["direct", "compact"],
    plan: DeliveryPlan,
    definitions: Definitions,
    tools: Sequence[DeliveredTool],
    *,
    reused: bool,
    note: str,
) -> Delivery:
    """The delivery of the plan's meta tools and these."""
    made = [definitions.of(meta) for meta in plan.meta]
    for sent in tools:
        tool = plan.view.get(sent.name)
        assert tool is not None, f"{sent.name} was planned but is not in the view"
        made.append(definitions.of(tool, slim=sent.slim))
    return Delivery(
        strategy=strategy,
        definitions=tuple(one.wire for one in made),
        meta=tuple(meta.name for meta in plan.meta),
        tools=tuple(tools),
        prefix_digest=hashlib.sha256(b"".join([one.digest for one in made])).hexdigest(),
        tokens=sum([one.tokens for one in made]),
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
