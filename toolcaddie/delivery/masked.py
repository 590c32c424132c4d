"""Strategy `masked`: a stable superset, of which the model may call what fits.

The array never changes, so nothing is ever billed anew; the mask travels with each request, outside of the cached prefix.
Where the provider has no mask, the same array goes out `direct`, all of it callable, and no meta tool is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.delivery.arrangement import Arrangement, Scene, names
from toolcaddie.util.replacing import replace


def whole(scene: Scene) -> Arrangement | None:
    """Everything the caller may see; None: nothing is to be sent, or it does not fit, with a place for `read_result`."""
    plan = scene.plan
    masks = bool(plan.capabilities.mask) and bool(plan.meta)
    tools = len(plan.view) + (len(plan.meta) if masks else 0)
    tokens = plan.selection.tokens_all + (scene.meta_tokens if masks else 0)
    if not plan.selection.tools or not scene.fits(tools + 1, tokens):
        return None

    def make() -> Delivery:
        delivery = scene.definitions.delivery(
            "masked" if masks else "direct",
            plan,
            [DeliveredTool(name=tool.name) for tool in plan.view],
            reused=not plan.delivered,
            meta=[tool for tool in plan.meta if masks or tool.name == READ_RESULT],
            note=f"all {len(plan.view)} tools: choosing would cost more than keeping them in the cache",
        )
        return _restricted(delivery, [sent.name for sent in scene.chosen]) if masks else delivery

    return Arrangement(
        name="all tools",
        strategy="masked" if masks else "direct",
        tools=tools,
        tokens=tokens,
        new_tokens=tokens,
        expected=scene.outlook.carried(tokens),
        make=make,
    )


def widened(scene: Scene, allowed: Sequence[str]) -> Arrangement:
    """The superset once more, with what fits now callable beside what was before."""
    plan, kept = scene.plan, scene.kept
    new = [sent for sent in scene.chosen if sent.name not in names(kept)]
    tokens = scene.meta_tokens + scene.tokens([*kept, *new])

    def make() -> Delivery:
        unchanged = not new and len(kept) == len(plan.delivered)
        delivery = scene.definitions.delivery(
            "masked", plan, [*kept, *new], reused=unchanged, note="the array as it was; what fits now may be called too"
        )
        return _restricted(delivery, dict.fromkeys([*allowed, *(sent.name for sent in scene.chosen)]))

    return Arrangement(
        name="the same array, masked",
        strategy="masked",
        tools=len(plan.meta) + len(kept) + len(new),
        tokens=tokens,
        new_tokens=scene.tokens(new),
        rebilled=plan.history if new else 0,
        expected=0.0,
        make=make,
    )


def _restricted(delivery: Delivery, allowed: Iterable[str]) -> Delivery:
    sent = names(delivery.tools)
    return replace(delivery, allowed=(*delivery.meta, *(name for name in allowed if name in sent)))
