"""Arrangements: possible ways to send the tools of a request. The planner prices each one and builds only the cheapest.

`direct`, `masked` and `behind` make arrangements; this module has what they share. The array is the list of tool definitions in a
request. In a provider's cache it comes before the system prompt and the messages, so a change of the array is expensive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryOption, DeliveryPlan, Strategy
from toolcaddie.delivery.costs import Outlook
from toolcaddie.delivery.definitions import Definitions

_FIRST = 12
"""The number of selected tools with which a conversation begins if others can be added cheaply. The budget may allow more."""
_MOST_ADDED = 3
"""The largest number of tools that are added to a running conversation at once."""
_NEAR = 0.85
"""Share of the best score that a tool needs to be added to a running conversation. Every later model call pays for an added tool,
so only the best few are added; a model that needs another tool asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The facts of a request from which the price of every arrangement is computed."""

    plan: DeliveryPlan
    definitions: Definitions
    outlook: Outlook
    behind: bool
    """True if tools that join later can be sent after the conversation instead of in the array."""
    earlier: Sequence[DeliveredTool]
    """Tools that were sent before and that the caller may still see."""
    selection: Sequence[DeliveredTool]
    """Tools of this request's selection."""
    meta_tokens: int
    """Tokens of the meta tools, such as `request_more_tools`."""
    sizes: dict[DeliveredTool, int] = field(default_factory=dict)
    """Tokens of the definitions that were measured so far, because the arrangements share most of their tools."""

    def tokens(self, tools: Iterable[DeliveredTool]) -> int:
        """Returns the tokens of the definitions of these tools; each tool is measured once."""
        sizes, total = self.sizes, 0
        for tool in tools:
            size = sizes.get(tool)
            if size is None:
                size = sizes[tool] = self.definitions.size(self.plan, tool)
            total += size
        return total

    def fits(self, tools: int, tokens: int) -> bool:
        """Returns True if this number of definitions, meta tools included, and of tokens is within the budget."""
        cap, most = self.plan.budget.provider_cap, self.plan.budget.max_tokens
        return (cap is None or tools <= cap) and (most is None or tokens <= most)

    def later(self, tools: int, tokens: int) -> float:
        """Returns the expected cost of the tools that will join an array of this size until the conversation ends."""
        if tools >= len(self.plan.view):
            return 0.0
        return self.outlook.later(tokens / max(1, tools), behind=self.behind)


class Arrangement(msgspec.Struct, frozen=True, kw_only=True):
    """One way to send the tools, and its price."""

    name: str
    strategy: Strategy
    tools: int
    """The number of definitions that the model sees in the next request."""
    tokens: int
    """Tokens of these definitions."""
    new_tokens: int = 0
    """Tokens of definitions that the provider has not seen in this conversation."""
    rebilled: int = 0
    """Tokens of the conversation so far that are billed again because the array before them changes."""
    expected: float
    """Expected cost of the tools until the conversation ends, in tokens of fresh input."""
    make: Callable[[], Delivery]
    """Builds the delivery; called only for the cheapest arrangement."""

    def option(self, outlook: Outlook) -> DeliveryOption:
        """Returns the arrangement in the form in which the delivery records all options and their prices."""
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
    """Returns the names of the tools with which a conversation begins: core tools, the tools that the caller names, and the best
    tools of the selection."""
    must = {item.tool.name for item in plan.selection.tools if item.core} | set(plan.pinned)
    ranking = sorted(plan.selection.tools, key=lambda item: -item.score)
    best = [item.tool.name for item in ranking if item.tool.name not in must][:_FIRST]
    return frozenset((*must, *best))


def best_new(plan: DeliveryPlan, exclude: frozenset[str]) -> list[DeliveredTool]:
    """Returns the few tools of the selection that are worth adding to a running conversation, in the selection's order.

    Core tools are never among them, because they were sent with the first request. If no tool matched the request, the selection
    has default tools only, and nothing is added. Tools in `exclude` were sent already.
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
