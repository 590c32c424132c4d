"""Strategy `masked`: all tools are sent in an array that does not change, and a mask says which of them the model may call.

The array never changes, so nothing is billed again. The mask is a parameter of each request, outside of the cached prefix. If the
provider has no such parameter, the same array is sent `direct`: the model may call all tools, and needs no meta tools to find
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery
from toolcaddie.core.meta_names import READ_RESULT, RUN_PROGRAM
from toolcaddie.delivery.arrangement import Arrangement, Scene, names
from toolcaddie.util.replacing import replace

_ALWAYS = frozenset({READ_RESULT, RUN_PROGRAM})
"""Meta tools that do not find tools, so that they are sent beside all tools."""


def whole(scene: Scene) -> Arrangement | None:
    """Returns the arrangement of all tools of the view, or None if nothing was selected or if they do not fit into the budget,
    with room for `read_result`."""
    plan = scene.plan
    masks = bool(plan.capabilities.mask) and any(tool.name not in _ALWAYS for tool in plan.meta)
    meta = [tool for tool in plan.meta if masks or tool.name in _ALWAYS]
    tools = len(plan.view) + len(meta)
    tokens = plan.selection.tokens_all + sum(scene.definitions.of(tool).tokens for tool in meta)
    if not plan.selection.tools or not scene.fits(tools + 1, tokens):
        return None

    def make() -> Delivery:
        delivery = scene.definitions.delivery(
            "masked" if masks else "direct",
            plan,
            [DeliveredTool(name=tool.name) for tool in plan.view],
            reused=not plan.delivered,
            meta=meta,
            note=f"all {len(plan.view)} tools: choosing would cost more than keeping them in the cache",
        )
        return _restricted(delivery, [tool.name for tool in scene.selection]) if masks else delivery

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
    """Returns the arrangement of the same array, in which the model may call the tools of this selection and those that were
    `allowed` before."""
    plan, earlier = scene.plan, scene.earlier
    new = [tool for tool in scene.selection if tool.name not in names(earlier)]
    tokens = scene.meta_tokens + scene.tokens([*earlier, *new])

    def make() -> Delivery:
        unchanged = not new and len(earlier) == len(plan.delivered)
        delivery = scene.definitions.delivery(
            "masked",
            plan,
            [*earlier, *new],
            reused=unchanged,
            note="the array is unchanged; the tools that were selected now may be called too",
        )
        return _restricted(delivery, dict.fromkeys([*allowed, *(tool.name for tool in scene.selection)]))

    return Arrangement(
        name="the same array, masked",
        strategy="masked",
        tools=len(plan.meta) + len(earlier) + len(new),
        tokens=tokens,
        new_tokens=scene.tokens(new),
        rebilled=plan.history if new else 0,
        expected=0.0,
        make=make,
    )


def _restricted(delivery: Delivery, allowed: Iterable[str]) -> Delivery:
    in_array = names(delivery.tools)
    return replace(delivery, allowed=(*delivery.meta, *(name for name in allowed if name in in_array)))
