"""Tools that are added behind the conversation, that is, after its messages, so that nothing is billed again. There are two ways.

As text: a message shows the schemas of the tools, and the model calls them through `execute_tool`. This works with every
provider, but small models call tools less reliably in this way. By reference: a message refers to the tools, and the provider
shows their definitions to the model from then on (strategy `native`). The cached array stays unchanged, and the model calls these
tools like any others; only some providers can do this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolcaddie.core.delivery import AddedBy, DeliveredTool, Delivery, DeliveryPlan, Strategy
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.delivery.arrangement import Arrangement, Scene, best_new, names
from toolcaddie.util.replacing import replace

_TEXT_TAX = 1_000.0
"""Tokens of fresh input that must be saved before a tool's schema is sent as text: models call tools in the `tools` array more
reliably."""


def ways(plan: DeliveryPlan) -> Sequence[AddedBy]:
    """Returns the possible ways to add tools to this conversation after its first request, the most reliable first."""
    possible: list[AddedBy] = ["reference"] if plan.capabilities.deferral else []
    possible.append("array")
    if any(tool.name == EXECUTE_TOOL for tool in plan.meta):
        possible.append("text")
    return possible


def cheapest_way(possible: Collection[AddedBy], rebilled: float) -> AddedBy:
    """Returns the way in which tools are added during the run, until prices are compared again. `rebilled` is the extra cost of a
    changed array."""
    if "reference" in possible:
        return "reference"
    return "text" if "text" in possible and rebilled > _TEXT_TAX else "array"


def joined_behind(scene: Scene, way: AddedBy) -> Arrangement | None:
    """Returns the arrangement with an unchanged array and the best new tools behind the conversation.

    Returns None if the array has to change anyway, if the tools do not fit into the budget, or if the provider cannot add tools
    in this `way` at the beginning of a turn.
    """
    plan, earlier = scene.plan, scene.earlier
    if len(earlier) < len(plan.delivered) or not names(earlier) >= frozenset(plan.pinned):
        return None  # the array has to change anyway
    behind = [DeliveredTool(name=name) for name in plan.known if plan.view.get(name) is not None]
    added = best_new(plan, names(earlier) | frozenset(plan.known))
    if way == "reference" and added and plan.capabilities.deferral == "references":
        return None
    new_tokens = scene.tokens(added)
    tools = [*earlier, *behind, *added]
    tokens = scene.meta_tokens + scene.tokens(tools)
    if not scene.fits(len(plan.meta) + len(earlier), tokens):  # tools behind the conversation are not in the array
        return None
    strategy: Strategy = "native" if way == "reference" else "direct"

    def make() -> Delivery:
        how = "made known by the provider's own means" if way == "reference" else "shown as text"
        delivery = scene.definitions.delivery(
            strategy,
            plan,
            earlier,
            reused=True,
            added=[tool.name for tool in added] if way == "reference" else (),
            note=f"the array is unchanged; {len(added)} more tools {how}" if added else "the array is unchanged",
        )
        return replace(delivery, tokens=tokens, added=tuple(tool.name for tool in added), added_by=way)

    return Arrangement(
        name=f"added by {way}",
        strategy=strategy,
        tools=len(plan.meta) + len(tools),
        tokens=tokens,
        new_tokens=new_tokens,
        expected=scene.outlook.carried(new_tokens) + (_TEXT_TAX if way == "text" and added else 0.0),
        make=make,
    )
