"""Tools that join behind the conversation, where they re-bill nothing: as text, or by the provider's own means.

As text, a message shows their schemas and they are called through `execute_tool`: that works with any provider, and small
models do worse with it. By reference, the provider itself is told that they are there from now on (strategy `native`):
the array that it has cached stays as it was, and the model calls them like any other tool.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from toolcaddie.core.delivery import AddedBy, DeliveredTool, Delivery, DeliveryPlan, Strategy
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.delivery.arrangement import Arrangement, Scene, best_new, names
from toolcaddie.util.replacing import replace

_TEXT_TAX = 1_000.0
"""What a schema as text must save, in tokens of fresh input: a model calls a tool of its array more surely."""


def ways(plan: DeliveryPlan) -> Sequence[AddedBy]:
    """How tools can join this conversation after its first request, the surest first."""
    found: list[AddedBy] = ["reference"] if plan.capabilities.deferral else []
    found.append("array")
    if any(tool.name == EXECUTE_TOOL for tool in plan.meta):
        found.append("text")
    return found


def cheapest_way(possible: Collection[AddedBy], rebilled: float) -> AddedBy:
    """The way for tools that join before the next look at prices; `rebilled`: what a changed array would cost more."""
    if "reference" in possible:
        return "reference"
    return "text" if "text" in possible and rebilled > _TEXT_TAX else "array"


def told(scene: Scene, way: AddedBy) -> Arrangement | None:
    """The array as it was, and the best of what is new behind the conversation; None: it does not fit, or cannot be told at
    the beginning of a turn."""
    plan, kept = scene.plan, scene.kept
    if len(kept) < len(plan.delivered) or not names(kept) >= frozenset(plan.pinned):
        return None  # the array changes anyway
    known = [DeliveredTool(name=name) for name in plan.known if plan.view.get(name) is not None]
    added = best_new(plan, names(kept) | frozenset(plan.known))
    if way == "reference" and added and plan.capabilities.deferral == "references":
        return None
    new_tokens = scene.tokens(added)
    seen = [*kept, *known, *added]
    tokens = scene.meta_tokens + scene.tokens(seen)
    if not scene.fits(len(plan.meta) + len(kept), tokens):  # what stands behind takes no place in the array
        return None
    strategy: Strategy = "native" if way == "reference" else "direct"

    def make() -> Delivery:
        how = "made known by the provider's own means" if way == "reference" else "shown as text"
        delivery = scene.definitions.delivery(
            strategy,
            plan,
            kept,
            reused=True,
            added=[sent.name for sent in added] if way == "reference" else (),
            note=f"the array as it was; {len(added)} more tools {how}" if added else "the array as it was",
        )
        return replace(delivery, tokens=tokens, added=tuple(sent.name for sent in added), added_by=way)

    return Arrangement(
        name=f"added by {way}",
        strategy=strategy,
        tools=len(plan.meta) + len(seen),
        tokens=tokens,
        new_tokens=new_tokens,
        expected=scene.outlook.carried(new_tokens) + (_TEXT_TAX if way == "text" and added else 0.0),
        make=make,
    )
