"""Arrangements: ways to send the tools of a request, priced before they are built, and the code they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryOption, DeliveryPlan, Strategy
from toolcaddie.delivery.costs import Outlook
from toolcaddie.delivery.definitions import Definitions

_FIRST = 12
"""Tools with which a conversation begins if others can be added cheaply: the budget is a limit, not an aim."""
_MOST_ADDED = 3
_NEAR = 0.85
"""Share of the best score that a later tool needs. Every later call pays for it, so only the best few are added; a model that
needs another tool asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Facts that every arrangement is priced by."""

    plan: DeliveryPlan
    definitions: Definitions
    outlook: Outlook
    behind: bool
    """Tools that join later may be put behind the conversation."""
    earlier: Sequence[DeliveredTool]
    """Tools that were sent before and that the caller may still see."""
    selection: Sequence[DeliveredTool]
    """Tools of this request's selection."""
    meta_tokens: int
    sizes: dict[DeliveredTool, int] = field(default_factory=dict)
    """Tokens of each definition measured so far: the arrangements share most of their tools."""

    def tokens(self, tools: Iterable[DeliveredTool]) -> int:
        sizes, total = self.sizes, 0
        for tool in tools:
            size = sizes.get(tool)
            if size is None:
                size = sizes[tool] = self.definitions.tokens(self.plan, (tool,))
            total += size
        return total

    def fits(self, tools: int, tokens: int) -> bool:
        """Returns True if so many definitions, meta tools included, are within the budget."""
        cap, most = self.plan.budget.provider_cap, self.plan.budget.max_tokens
        return (cap is None or tools <= cap) and (most is None or tokens <= most)

    def later(self, tools: int, tokens: int) -> float:
        """Returns the cost of the tools that will join an array of this size until the conversation ends."""
        if tools >= len(self.plan.view):
            return 0.0
        return self.outlook.later(tokens / max(1, tools), behind=self.behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One way to send the tools, with its price."""

    name: str
    strategy: Strategy
    tools: int
    """Definitions the model sees in the next request."""
    tokens: int
    """Tokens of these definitions."""
    new_tokens: int = 0
    """Tokens of definitions that the provider has not seen in this conversation."""
    rebilled: int = 0
    """Tokens of the conversation so far that come after a change of the array."""
    expected: float
    """Cost of the tools until the conversation ends, in tokens of fresh input."""
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
    """Returns the names of the tools to begin with: core tools, the tools the caller names, and the best of the selection."""
    must = {item.tool.name for item in plan.selection.tools if item.core} | set(plan.pinned)
    ranking = sorted(plan.selection.tools, key=lambda item: -item.score)
    best = [item.tool.name for item in ranking if item.tool.name not in must][:_FIRST]
    return frozenset((*must, *best))


def best_new(plan: DeliveryPlan, exclude: frozenset[str]) -> list[DeliveredTool]:
    """Returns the few tools of the selection that are worth adding to a running conversation, in the selection's order.

    If nothing matched, there are none: defaults are no reason to add anything. Core tools went with the first request.
    """
    if plan.selection.no_match:
        return []
    new = [item for item in plan.selection.tools if item.tool.name not in exclude and not item.core]
    least = max((item.score for item in plan.selection.tools), default=0.0) * _NEAR
    best = sorted((item for item in new if item.score >= least), key=lambda item: -item.score)[:_MOST_ADDED]
    best_names = {item.tool.name for item in best}
    return [DeliveredTool(name=item.tool.name, slim=item.slim) for item in new if item.tool.name in best_names]


def names(tools: Iterable[DeliveredTool]) -> frozenset[str]:
    return frozenset(tool.name for tool in tools)
