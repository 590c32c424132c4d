"""One way to send the tools of a request, priced before it is made out; and what the ways have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryOption, DeliveryPlan, Strategy
from toolcaddie.delivery.costs import Outlook
from toolcaddie.delivery.definitions import Definitions

_FIRST = 12
"""Tools that a conversation begins with where others can join cheaply; what the budget allows is the most, not the aim."""
_MOST_ADDED = 3
_NEAR = 0.85
"""What joins a conversation later is paid for in every call after it: the best few, and of these none whose score is below this
share of the best. A model that needs another one asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the ways look at."""

    plan: DeliveryPlan
    definitions: Definitions
    outlook: Outlook
    behind: bool
    """Tools that join later may be put behind the conversation."""
    kept: Sequence[DeliveredTool]
    """What was sent before and is still there to be sent."""
    chosen: Sequence[DeliveredTool]
    meta_tokens: int
    sizes: dict[DeliveredTool, int] = field(default_factory=dict)
    """Tokens of each definition that was looked at: the ways look at much the same tools."""

    def tokens(self, tools: Iterable[DeliveredTool]) -> int:
        sizes, total = self.sizes, 0
        for sent in tools:
            size = sizes.get(sent)
            if size is None:
                size = sizes[sent] = self.definitions.tokens(self.plan, (sent,))
            total += size
        return total

    def fits(self, tools: int, tokens: int) -> bool:
        """Whether so many definitions, meta tools included, are within the budget."""
        cap, most = self.plan.budget.provider_cap, self.plan.budget.max_tokens
        return (cap is None or tools <= cap) and (most is None or tokens <= most)

    def later(self, tools: int, tokens: int) -> float:
        """What joins an array of so many tools of the view until the conversation ends."""
        if tools >= len(self.plan.view):
            return 0.0
        return self.outlook.later(tokens / max(1, tools), behind=self.behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    name: str
    strategy: Strategy
    tools: int
    """Definitions the model sees in the next request."""
    tokens: int
    """Of these."""
    new_tokens: int = 0
    """Of these, what the provider has not seen in this conversation."""
    rebilled: int = 0
    """Tokens of the conversation so far that stand behind a change."""
    expected: float
    """What the tools cost until the conversation ends, in tokens of fresh input."""
    make: Callable[[], Delivery]

    def option(self, outlook: Outlook) -> DeliveryOption:
        return DeliveryOption(
            name=self.name,
            strategy=self.strategy,
            tools=self.tools,
            tokens=self.tokens,
            rebilled=self.rebilled,
            expected=round(self.expected, 1),
            dollars=outlook.dollars(self.expected),
        )


def first_few(plan: DeliveryPlan) -> frozenset[str]:
    """The best of the selection, with core tools and what the caller names: enough to begin with."""
    must = {one.tool.name for one in plan.selection.tools if one.core} | set(plan.pinned)
    ranked = sorted(plan.selection.tools, key=lambda one: -one.score)
    best = [one.tool.name for one in ranked if one.tool.name not in must][:_FIRST]
    return frozenset((*must, *best))


def best_new(plan: DeliveryPlan, known: frozenset[str]) -> list[DeliveredTool]:
    """The few tools of the selection that are worth adding to a conversation under way, in the selection's order.

    Nothing where nothing fitted: defaults are no reason to add anything. Core tools went with the first request.
    """
    if plan.selection.no_match:
        return []
    new = [one for one in plan.selection.tools if one.tool.name not in known and not one.core]
    least = max((one.score for one in plan.selection.tools), default=0.0) * _NEAR
    ranked = sorted((one for one in new if one.score >= least), key=lambda one: -one.score)[:_MOST_ADDED]
    taken = {one.tool.name for one in ranked}
    return [DeliveredTool(name=one.tool.name, slim=one.slim) for one in new if one.tool.name in taken]


def names(tools: Iterable[DeliveredTool]) -> frozenset[str]:
    return frozenset(sent.name for sent in tools)
