"""Strategy `direct`: the selected tools are sent in the array, and new tools are added at its end only.

In a provider's cache the tools come before the system prompt and the messages, so the whole conversation is billed again if a
tool is moved or removed. Tools that were sent therefore stay in their places, and new tools come last. The array is rebuilt only
when the tools no longer fit into the budget, or when nothing is cached any more; the note of the delivery says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.core.errors import BudgetError
from toolcaddie.delivery.arrangement import Arrangement, Scene, best_new, first_few, names
from toolcaddie.delivery.definitions import Definitions, fits
from toolcaddie.util.replacing import replace


def plan_direct(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    """Returns the delivery of the meta tools, then the tools that were sent before, then the new tools of the selection.

    Raises `BudgetError` if the selection alone is over the budget, which means that it was made for another budget.
    """
    selection = additions = definitions.delivered(plan.selection.tools)
    earlier: tuple[DeliveredTool, ...] = ()
    if plan.delivered:
        delivered_names = names(plan.delivered)
        additions = tuple([tool for tool in selection if tool.name not in delivered_names])
        earlier = tuple([tool for tool in plan.delivered if plan.view.get(tool.name) is not None])
    lost = len(plan.delivered) - len(earlier)
    grown = definitions.delivery(
        "direct", plan, earlier + additions, reused=lost == 0, note=_note(earlier, additions, lost)
    )
    if fits(grown, plan.budget):
        return grown
    if not selection:  # without a selection the array cannot be rebuilt: the earlier tools that fit stay
        return _cut(plan, definitions, earlier)
    if not plan.delivered:
        raise BudgetError(
            f"{len(grown.definitions)} tools with {grown.tokens} tokens were selected for a limit of "
            f"{plan.budget.provider_cap} tools and {plan.budget.max_tokens} tokens"
        )
    return definitions.delivery(
        "direct",
        plan,
        selection,
        reused=False,
        note=f"rebuilt with {len(selection)} tools: {len(additions)} more did not fit; re-bills the cached prefix",
    )


def rebuilt(scene: Scene) -> Arrangement:
    """Returns the arrangement of the selection and recently called tools, for a conversation of which nothing is cached."""
    return _rebuilt_from(scene, "the selection", scene.selection)


def few_at_first(scene: Scene) -> Arrangement | None:
    """Returns the arrangement of only the best tools of the selection, or None if these are all of it. The price includes calls
    in which the model asks for one of the other tools."""
    first = first_few(scene.plan)
    best = [tool for tool in scene.selection if tool.name in first]
    omitted = len(scene.selection) - len(best)
    if not omitted:
        return None
    arrangement = _rebuilt_from(scene, "the best of the selection", best)
    return replace(arrangement, expected=arrangement.expected + scene.outlook.omitted(omitted))


def _rebuilt_from(scene: Scene, name: str, selection: Sequence[DeliveredTool]) -> Arrangement:
    """Returns the arrangement with a new array of recently called tools and `selection`. If both do not fit into the budget, the
    recently called tools are omitted. `name` is the arrangement's name in notes."""
    plan = scene.plan
    recent = [tool for tool in scene.earlier if tool.name in plan.called and tool.name not in names(selection)]
    tools = [*recent, *selection]
    tokens = scene.meta_tokens + scene.tokens(tools)
    if recent and not scene.fits(len(plan.meta) + len(tools), tokens):
        tools = list(selection)
        tokens = scene.meta_tokens + scene.tokens(tools)

    def make() -> Delivery:
        if not plan.delivered and len(selection) == len(scene.selection):
            return plan_direct(plan, scene.definitions)
        reason = "nothing of this conversation is cached any more" if plan.delivered else "a conversation begins"
        note = f"{reason}: {len(tools)} tools, {name}"
        return scene.definitions.delivery("direct", plan, tools, reused=not plan.delivered, note=note)

    return Arrangement(
        name=name,
        strategy="direct",
        tools=len(plan.meta) + len(tools),
        tokens=tokens,
        new_tokens=tokens,
        expected=scene.outlook.carried(tokens) + scene.later(len(tools), tokens),
        make=make,
    )


def appended(scene: Scene) -> Arrangement:
    """Returns the arrangement of the earlier tools and the best new tools, all in the array. If the array changes, the
    conversation after it is billed again."""
    plan, earlier = scene.plan, scene.earlier
    in_array = names(earlier)
    new_names = names(best_new(plan, in_array | frozenset(plan.known))) | (frozenset(plan.pinned) - in_array)
    new = [tool for tool in scene.selection if tool.name in new_names]
    tools = [*earlier, *new]
    tokens = scene.meta_tokens + scene.tokens(tools)
    if not scene.fits(len(plan.meta) + len(tools), tokens):
        return replace(rebuilt(scene), rebilled=plan.history)
    changed = bool(new) or len(earlier) < len(plan.delivered)
    rebilled = plan.history if changed else 0
    new_tokens = scene.tokens(new)

    def make() -> Delivery:
        note = _note(earlier, new, len(plan.delivered) - len(earlier))
        return scene.definitions.delivery("direct", plan, tools, reused=len(earlier) == len(plan.delivered), note=note)

    return Arrangement(
        name="added by array",
        strategy="direct",
        tools=len(plan.meta) + len(tools),
        tokens=tokens,
        new_tokens=new_tokens,
        rebilled=rebilled,
        expected=scene.outlook.carried(new_tokens) + scene.outlook.rebilled(rebilled),
        make=make,
    )


def _cut(plan: DeliveryPlan, definitions: Definitions, tools: Sequence[DeliveredTool]) -> Delivery:
    """Returns the delivery of the first of these tools, as many as fit into the budget; at least the last tool is dropped."""
    while True:
        tools = tools[:-1]
        note = f"cut to the {len(tools)} tools that still fit"
        delivery = definitions.delivery("direct", plan, tools, reused=False, note=note)
        if not tools or fits(delivery, plan.budget):
            return delivery


def _note(earlier: Sequence[DeliveredTool], additions: Sequence[DeliveredTool], lost: int) -> str:
    """Returns the note of a delivery, which says in words what was added or lost."""
    if lost:
        return f"{lost} tools sent before are gone; {len(earlier)} kept, {len(additions)} added"
    if not earlier:
        return f"first delivery of this conversation: {len(additions)} tools"
    return f"{len(earlier)} tools sent before kept in place, {len(additions)} added at the end"
