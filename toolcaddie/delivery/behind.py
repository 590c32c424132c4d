"""Tools that are added behind the conversation, so that nothing is billed again: as text, or by the provider's own means.

As text, a message shows their schemas and they are called through `execute_tool`: this works with any provider, but small
models are worse at it. By reference, a message makes the provider add them from then on (strategy `native`): its cached
array stays unchanged, and the model calls them like any other tool.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolcaddie.core.delivery import AddedBy, DeliveredTool, Delivery, DeliveryPlan, Strategy
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.delivery.arrangement import Arrangement, Scene, best_new, names
from toolcaddie.util.replacing import replace

_TEXT_TAX = 1_000.0
"""Saving that a schema as text must bring, in tokens of fresh input: models call tools of the array more reliably."""


def ways(plan: DeliveryPlan) -> Sequence[AddedBy]:
    """Returns the ways in which tools can join this conversation after its first request, the most reliable first."""
    possible: list[AddedBy] = ["reference"] if plan.capabilities.deferral else []
    possible.append("array")
    if any(tool.name == EXECUTE_TOOL for tool in plan.meta):
        possible.append("text")
    return possible


def cheapest_way(possible: Collection[AddedBy], rebilled: float) -> AddedBy:
    """Returns the way for tools that join before prices are compared again; `rebilled`: extra cost of a changed array."""
    if "reference" in possible:
        return "reference"
    return "text" if "text" in possible and rebilled > _TEXT_TAX else "array"


def joined_behind(scene: Scene, way: AddedBy) -> Arrangement | None:
    """Returns the unchanged array with the best new tools behind the conversation.

    None: they do not fit, or this way is not possible at the beginning of a turn.
    """
    plan, earlier = scene.plan, scene.earlier
    if len(earlier) < len(plan.delivered) or not names(earlier) >= frozenset(plan.pinned):
        return None  # the array changes anyway
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
            note=f"the array as it was; {len(added)} more tools {how}" if added else "the array as it was",
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
