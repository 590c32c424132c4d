"""Strategy `direct`: the selection itself, growing at the end only.

Tools stand before system prompt and messages in what a provider caches, so a tool that is moved or removed re-bills the
whole conversation behind it. Hence: what was sent stays where it was; what is new comes last; and only when that no longer
fits is the array made anew, which the note says.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.core.errors import BudgetError
from toolcaddie.delivery.arrangement import Arrangement, Scene, best_new, first_few, names
from toolcaddie.delivery.definitions import Definitions, fits
from toolcaddie.util.replacing import replace


def plan_direct(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    """Meta tools, then what was sent before, then what the selection adds, in catalog order.

    Raises `BudgetError` when even the fresh selection is over the cap: that is a selection made for another budget.
    """
    known = {sent.name for sent in plan.delivered}
    chosen = [DeliveredTool(name=picked.tool.name, slim=picked.slim) for picked in plan.selection.tools]
    additions = [tool for tool in chosen if tool.name not in known]
    kept = [sent for sent in plan.delivered if plan.view.get(sent.name) is not None]
    lost = len(plan.delivered) - len(kept)
    grown = definitions.delivery(
        "direct", plan, [*kept, *additions], reused=lost == 0, note=_note(kept, additions, lost)
    )
    if fits(grown, plan.budget):
        return grown
    if not chosen:  # nothing to choose anew from: what was sent stays, as far as it fits
        return _cut(plan, definitions, kept)
    if not plan.delivered:
        raise BudgetError(
            f"{len(grown.definitions)} tools with {grown.tokens} tokens were selected for a limit of "
            f"{plan.budget.provider_cap} tools and {plan.budget.max_tokens} tokens"
        )
    return definitions.delivery(
        "direct",
        plan,
        chosen,
        reused=False,
        note=f"made anew with {len(chosen)} tools: {len(additions)} more did not fit; re-bills the cached prefix",
    )


def chosen_anew(scene: Scene) -> Arrangement:
    """The selection alone, and what was called lately: for a conversation of which nothing is cached."""
    return _begun(scene, "the selection", scene.chosen)


def few_at_first(scene: Scene) -> Arrangement | None:
    """The best of the selection; None: that is all of it. What is left out must be asked for, now and then."""
    first = first_few(scene.plan)
    chosen = [sent for sent in scene.chosen if sent.name in first]
    left_out = len(scene.chosen) - len(chosen)
    if not left_out:
        return None
    found = _begun(scene, "the best of the selection", chosen)
    return replace(found, expected=found.expected + scene.outlook.asked(left_out))


def _begun(scene: Scene, name: str, chosen: Sequence[DeliveredTool]) -> Arrangement:
    plan = scene.plan
    lately = [sent for sent in scene.kept if sent.name in plan.called and sent.name not in names(chosen)]
    tools = [*lately, *chosen]
    tokens = scene.meta_tokens + scene.tokens(tools)
    if lately and not scene.fits(len(plan.meta) + len(tools), tokens):
        tools = list(chosen)
        tokens = scene.meta_tokens + scene.tokens(tools)

    def make() -> Delivery:
        if not plan.delivered and len(chosen) == len(scene.chosen):
            return plan_direct(plan, scene.definitions)
        begun = "nothing of this conversation is cached any more" if plan.delivered else "a conversation begins"
        note = f"{begun}: {len(tools)} tools, {name}"
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
    """What was sent before and the best of what is new, in the array: what stands behind it is billed anew."""
    plan, kept = scene.plan, scene.kept
    known = names(kept)
    wanted = names(best_new(plan, known | frozenset(plan.known))) | (frozenset(plan.pinned) - known)
    new = [sent for sent in scene.chosen if sent.name in wanted]
    tools = [*kept, *new]
    tokens = scene.meta_tokens + scene.tokens(tools)
    if not scene.fits(len(plan.meta) + len(tools), tokens):
        return replace(chosen_anew(scene), rebilled=plan.history)
    changed = bool(new) or len(kept) < len(plan.delivered)
    rebilled = plan.history if changed else 0
    new_tokens = scene.tokens(new)

    def make() -> Delivery:
        note = _note(kept, new, len(plan.delivered) - len(kept))
        return scene.definitions.delivery("direct", plan, tools, reused=len(kept) == len(plan.delivered), note=note)

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


def _cut(plan: DeliveryPlan, definitions: Definitions, kept: list[DeliveredTool]) -> Delivery:
    while True:
        kept = kept[:-1]
        note = f"cut to the {len(kept)} tools that still fit"
        delivery = definitions.delivery("direct", plan, kept, reused=False, note=note)
        if not kept or fits(delivery, plan.budget):
            return delivery


def _note(kept: Sequence[DeliveredTool], additions: Sequence[DeliveredTool], lost: int) -> str:
    if lost:
        return f"{lost} tools sent before are gone; {len(kept)} kept, {len(additions)} added"
    if not kept:
        return f"first delivery of this conversation: {len(additions)} tools"
    return f"{len(kept)} tools sent before kept in place, {len(additions)} added at the end"
