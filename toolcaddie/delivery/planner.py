"""The planner: what the ways to send a selection cost in this conversation, and the cheapest of them.

A preset that reproduces another system sends to the letter (`direct`, `compact`). With `auto` the planner weighs, once for
every run: while the provider's cache holds the conversation, whether what is new goes into the array or behind the
conversation; and where nothing is cached, whether to choose or to send all. The rounds of the run then only carry on.
"""

from __future__ import annotations

from typing import Literal

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan, ExpectedBill
from toolcaddie.delivery import behind, direct, masked
from toolcaddie.delivery.arrangement import Arrangement, Scene
from toolcaddie.delivery.compact import plan_compact
from toolcaddie.delivery.costs import Outlook, Terms
from toolcaddie.delivery.definitions import Definitions
from toolcaddie.util.replacing import replace

Mode = Literal["auto", "direct", "masked", "native"]


class DeliveryPlanner:
    """Fulfils `ports.Planner`. `compact` exposure sends the meta tools alone; otherwise `mode` decides: `direct` sends the
    selection and grows at the end, the others weigh. `masked` and `native` take that strategy wherever the provider has it."""

    def __init__(self, exposure: Literal["selected", "all", "compact"] = "selected", *, mode: Mode = "direct") -> None:
        self._exposure = exposure
        self._mode: Mode = "direct" if exposure == "all" else mode
        self._definitions = Definitions()

    def plan(self, plan: DeliveryPlan) -> Delivery:
        if self._exposure == "compact":
            return plan_compact(plan, self._definitions)
        if self._mode == "direct":
            return direct.plan_direct(plan, self._definitions)
        if plan.under_way:
            return self._carried_on(plan)
        return self._weighed(plan)

    def _weighed(self, plan: DeliveryPlan) -> Delivery:
        terms = Terms.of(plan.capabilities)
        outlook = Outlook.of(plan, terms)
        if not plan.delivered and len(plan.selection.tools) == len(plan.view):
            return self._all_there_is(plan, terms, outlook)
        ways = behind.ways(plan)
        later_by = behind.cheapest_way(ways, outlook.rebilled(plan.history + plan.fresh))
        scene = Scene(
            plan=plan,
            definitions=self._definitions,
            outlook=outlook,
            behind=any(way != "array" for way in ways),
            kept=[sent for sent in plan.delivered if plan.view.get(sent.name) is not None],
            chosen=[
                DeliveredTool(name=one.tool.name, slim=one.slim)
                for one in plan.selection.tools
                if not plan.capabilities.deferral
                or one.tool.name not in plan.referenced
                or one.tool.name in plan.pinned
            ],
            meta_tokens=sum(self._definitions.of(tool).tokens for tool in plan.meta),
        )
        cold = not plan.delivered or not terms.lifetime or (plan.idle is not None and plan.idle >= terms.lifetime)
        found = sorted(self._cold(scene) if cold else self._warm(scene), key=lambda one: one.expected)
        best = found[0]
        delivery = best.make()
        return replace(
            delivery,
            note=f"{self._impossible(plan)}{delivery.note}",
            later_by=later_by,
            options=tuple(one.option(outlook) for one in found),
            bill=_bill(plan, best, terms, cold=cold),
        )

    def _all_there_is(self, plan: DeliveryPlan, terms: Terms, outlook: Outlook) -> Delivery:
        """Small catalogs go whole, and there is nothing to weigh."""
        delivery = direct.plan_direct(plan, self._definitions)
        only = Arrangement(
            name="all tools",
            strategy="direct",
            tools=len(delivery.definitions),
            tokens=delivery.tokens,
            new_tokens=delivery.tokens,
            expected=outlook.carried(delivery.tokens),
            make=lambda: delivery,
        )
        return replace(delivery, options=(only.option(outlook),), bill=_bill(plan, only, terms, cold=True))

    def _cold(self, scene: Scene) -> list[Arrangement]:
        """Nothing is cached, so the array may be any: what fits now, or all there is."""
        whole = masked.whole(scene)
        began_whole = bool(scene.kept) and len(scene.kept) >= len(scene.plan.view)
        masks = self._mode == "masked" and not self._impossible(scene.plan)
        if whole is not None and (masks or began_whole):
            return [whole]  # begun whole, a conversation may have no meta tool to ask for more with
        found = [direct.chosen_anew(scene)]
        if self._mode != "auto" and not self._impossible(scene.plan):
            return found
        few = direct.few_at_first(scene) if scene.plan.lasting and scene.behind else None
        return [*found, *(one for one in (few, whole) if one is not None)]

    def _impossible(self, plan: DeliveryPlan) -> str:
        """Why the mode cannot be had here, so that the ways are weighed instead; empty: it can, or none was asked for."""
        can, most = plan.capabilities, plan.budget.provider_cap
        if self._mode == "native" and not can.deferral:
            return "native is not possible: this model has no means of its own for tools that join later; "
        if self._mode == "masked" and not can.mask:
            return "masked is not possible: this model knows no mask; "
        if (
            self._mode == "masked"
            and plan.allowed is None
            and most is not None
            and len(plan.view) + len(plan.meta) > most
        ):
            return f"masked is not possible: {len(plan.view)} tools and {len(plan.meta)} meta tools, at most {most}; "
        return ""

    def _warm(self, scene: Scene) -> list[Arrangement]:
        """The array is cached, and the conversation behind it."""
        plan = scene.plan
        if plan.allowed is not None:
            same = masked.widened(scene, plan.allowed)
            return [same if scene.fits(same.tools, same.tokens) else direct.chosen_anew(scene)]
        told = [behind.told(scene, way) for way in behind.ways(plan) if way != "array"]
        found = [one for one in told if one is not None]
        if self._mode == "native" and found and found[0].strategy == "native":
            return found[:1]
        return [*found, direct.appended(scene)]

    def _carried_on(self, plan: DeliveryPlan) -> Delivery:
        """A later round: what the state holds, in the way that was chosen. Of a run that was put away only the state is left,
        and nothing is weighed anew: without a cache that would be to begin with nothing."""
        settled = plan.settled
        known = [name for name in plan.known if plan.view.get(name) is not None]
        delivery = self._definitions.delivery(
            "direct" if settled is None else settled.strategy,
            plan,
            plan.delivered,
            reused=True,
            note="as before the run was put away" if settled is None else settled.note,
        )
        shown = self._definitions.tokens(plan, [DeliveredTool(name=name) for name in known])
        allowed = None if plan.allowed is None else (*delivery.meta, *plan.allowed)
        return replace(
            delivery,
            tokens=delivery.tokens + shown,
            later_by=delivery.later_by if settled is None else settled.later_by,
            allowed=allowed,
            tokens_all=delivery.tokens_all if settled is None else settled.tokens_all,
        )


def _bill(plan: DeliveryPlan, best: Arrangement, terms: Terms, *, cold: bool) -> ExpectedBill:
    """Of the next request, under the rule of the provider's cache."""
    total = best.tokens + plan.history + plan.fresh
    read = 0 if cold else max(0, total - plan.fresh - best.rebilled - best.new_tokens)
    cached = terms.lifetime > 0 and total >= terms.minimum
    read = read if cached and read >= terms.minimum else 0
    written = total - read if cached else 0
    plain = total - read - written
    spent = read * terms.read + written * terms.write + plain
    dollars = None if terms.dollars is None else spent * terms.dollars
    return ExpectedBill(read=read, written=written, plain=plain, dollars=dollars)
