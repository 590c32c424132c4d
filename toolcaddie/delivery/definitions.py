"""Tools as they are sent: each encoded once, and the array they make together."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan, Strategy
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.schema import estimate_tokens, wire_definition
from toolcaddie.core.selection import Budget
from toolcaddie.core.tool import Tool


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

    def tokens(self, plan: DeliveryPlan, tools: Iterable[DeliveredTool]) -> int:
        """Of these tools of the plan's view together, in the form they are sent in."""
        return sum([made.tokens for made in self._all(plan, tools)])

    def _all(self, plan: DeliveryPlan, tools: Iterable[DeliveredTool]) -> list[Definition]:
        found = []
        for sent in tools:
            tool = plan.view.get(sent.name)
            assert tool is not None, f"{sent.name} was planned but is not in the view"
            found.append(self.of(tool, slim=sent.slim))
        return found

    def delivery(
        self,
        strategy: Strategy,
        plan: DeliveryPlan,
        tools: Sequence[DeliveredTool],
        *,
        reused: bool,
        note: str,
        meta: Sequence[Tool] | None = None,
        added: Sequence[str] = (),
    ) -> Delivery:
        """The delivery of meta tools (the plan's, if none are given), these tools, and, unseen until revealed, what messages
        refer to: what they did before, and `added`."""
        meta = plan.meta if meta is None else meta
        first = [self.of(each) for each in meta if each.name != READ_RESULT]
        last = [self.of(each) for each in meta if each.name == READ_RESULT]  # joins late, and must not move the others
        made = [*first, *self._all(plan, tools), *last]
        array = {sent.name for sent in tools}
        deferred = [
            name for name in (*plan.referenced, *added) if name not in array and plan.view.get(name) is not None
        ]
        held_back = self._all(plan, [DeliveredTool(name=name) for name in deferred])
        if not plan.capabilities.deferral:  # referred to before another provider was asked, which knows no such means
            made, held_back, deferred = [*made, *held_back[: _room(plan, len(made))]], [], []
        return Delivery(
            strategy=strategy,
            definitions=tuple([one.wire for one in (*made, *held_back)]),
            meta=tuple(each.name for each in meta),
            tools=tuple(tools),
            prefix_digest=hashlib.sha256(b"".join([one.digest for one in made])).hexdigest(),
            tokens=sum([one.tokens for one in made]),
            tokens_all=plan.selection.tokens_all,
            reused=reused,
            note=note,
            deferred=frozenset(deferred),
        )


def _room(plan: DeliveryPlan, tools: int) -> int | None:
    """Definitions that the cap allows beside so many; None: any number."""
    cap = plan.budget.provider_cap
    return None if cap is None else max(0, cap - tools)


def fits(delivery: Delivery, budget: Budget) -> bool:
    within_cap = budget.provider_cap is None or len(delivery.definitions) <= budget.provider_cap
    return within_cap and (budget.max_tokens is None or delivery.tokens <= budget.max_tokens)
