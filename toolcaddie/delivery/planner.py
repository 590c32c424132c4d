"""The planner: compares the prices of the ways to send a selection in a conversation, and uses the cheapest.

A preset that reproduces another system has a fixed way (`direct`, `compact`). With `auto` the planner compares prices once in
each run. While the conversation is in the provider's cache, new tools are added to the array or behind the conversation; if
nothing is cached, the selection or all tools are sent. Later rounds of the run (model calls) follow that decision.
"""

from __future__ import annotations

from typing import Literal

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan, ExpectedBill, Settled
from toolcaddie.delivery import behind, direct, masked, program
from toolcaddie.delivery.arrangement import Arrangement, Scene
from toolcaddie.delivery.compact import pinned_tools, plan_compact
from toolcaddie.delivery.costs import Outlook, Terms
from toolcaddie.delivery.definitions import Definitions
from toolcaddie.util.replacing import replace

Mode = Literal["auto", "direct", "masked", "native"]


class DeliveryPlanner:
    """Plans the first and the later deliveries of a run. Implements `ports.Planner`.

    With exposure `compact` the meta tools and the tools that the caller names are sent. Otherwise `mode` decides: `direct` sends
    the selection and adds tools at the end of the array; `auto` compares prices; `masked` and `native` use the strategy of that
    name if the provider supports it, and compare prices otherwise.
    """

    def __init__(self, exposure: Literal["selected", "all", "compact"] = "selected", *, mode: Mode = "direct") -> None:
        self._exposure = exposure
        self._mode: Mode = "direct" if exposure == "all" else mode
        self._definitions = Definitions()

    def forget(self, catalog: Catalog) -> None:
        """Drops the definitions of a catalog that is no longer used."""
        self._definitions.forget(catalog)

    def plan_first(self, plan: DeliveryPlan) -> Delivery:
        if self._exposure == "compact":
            return plan_compact(plan, pinned_tools(plan), self._definitions)
        if self._mode == "direct":
            return direct.plan_direct(plan, self._definitions)
        return self._cheapest(plan)

    def plan_next(self, plan: DeliveryPlan, settled: Settled | None) -> Delivery:
        if self._exposure == "compact":
            return plan_compact(plan, plan.delivered, self._definitions)
        if self._mode == "direct":
            return direct.plan_direct(plan, self._definitions)
        return self._next_round(plan, settled)

    def _cheapest(self, plan: DeliveryPlan) -> Delivery:
        """Returns the delivery with the lowest expected cost until the conversation ends, with the prices of all options."""
        terms = Terms.of(plan.capabilities)
        outlook = Outlook.of(plan, terms)
        cold = not plan.delivered or not terms.lifetime or (plan.idle is not None and plan.idle >= terms.lifetime)
        weighs = plan.programs == "weigh" and program.offers_programs(plan)
        if weighs and not cold:  # the array stays as it is while it is cached
            plan, weighs = plan if plan.wrote_programs else program.without_programs(plan), False
        arrangements = self._arrangements(program.without_programs(plan) if weighs else plan, outlook, cold=cold)
        if weighs:
            others = self._arrangements(plan, outlook, cold=cold)
            arrangements += [program.with_programs(each, outlook) for each in others]
        arrangements.sort(key=lambda each: each.expected)
        best = arrangements[0]
        delivery = best.make()
        return replace(
            delivery,
            note=f"{self._impossible(plan)}{delivery.note}",
            later_by=behind.cheapest_way(behind.ways(plan), outlook.rebilled(plan.history + plan.fresh)),
            options=tuple(each.option(outlook) for each in arrangements),
            bill=_bill(plan, best, terms, cold=cold),
        )

    def _arrangements(self, plan: DeliveryPlan, outlook: Outlook, *, cold: bool) -> list[Arrangement]:
        """Returns the possible arrangements of a plan."""
        if not plan.delivered and len(plan.selection.tools) == len(plan.view):
            return [self._whole_catalog(plan, outlook)]
        selected = self._definitions.delivered(plan.selection.tools)
        scene = Scene(
            plan=plan,
            definitions=self._definitions,
            outlook=outlook,
            behind=any(way != "array" for way in behind.ways(plan)),
            earlier=[tool for tool in plan.delivered if plan.view.get(tool.name) is not None],
            selection=[
                tool
                for tool in selected
                if not plan.capabilities.deferral or tool.name not in plan.referenced or tool.name in plan.pinned
            ],
            sizes={
                tool: self._definitions.of(item.tool, slim=tool.slim).tokens
                for tool, item in zip(selected, plan.selection.tools, strict=True)
            },
            meta_tokens=sum(self._definitions.of(tool).tokens for tool in plan.meta),
        )
        return self._cold(scene) if cold else self._warm(scene)

    def _whole_catalog(self, plan: DeliveryPlan, outlook: Outlook) -> Arrangement:
        """Returns the arrangement of a small catalog that was selected whole."""
        delivery = direct.plan_direct(plan, self._definitions)
        return Arrangement(
            name="all tools",
            strategy="direct",
            tools=len(delivery.definitions),
            tokens=delivery.tokens,
            new_tokens=delivery.tokens,
            expected=outlook.carried(delivery.tokens),
            make=lambda: delivery,
        )

    def _cold(self, scene: Scene) -> list[Arrangement]:
        """Returns the possible arrangements if nothing is cached, so that the array may change: the selection or all tools."""
        whole = masked.whole(scene)
        began_whole = bool(scene.earlier) and len(scene.earlier) >= len(scene.plan.view)
        masks = self._mode == "masked" and not self._impossible(scene.plan)
        if whole is not None and (masks or began_whole):
            return [whole]  # a conversation that began with all tools may have no meta tool to get more of them
        rebuilt = direct.rebuilt(scene)
        if self._mode != "auto" and not self._impossible(scene.plan):
            return [rebuilt]
        few = direct.few_at_first(scene) if scene.plan.lasting and scene.behind else None
        return [rebuilt, *(each for each in (few, whole) if each is not None)]

    def _impossible(self, plan: DeliveryPlan) -> str:
        """Returns the beginning of a note that says why the mode is not possible, so that prices decide; empty if it is
        possible."""
        capabilities, cap = plan.capabilities, plan.budget.provider_cap
        if self._mode == "native" and not capabilities.deferral:
            return "native is not possible: this model has no means of its own for tools that are added later; "
        if self._mode == "masked" and not capabilities.mask:
            return "masked is not possible: this model supports no mask; "
        if (
            self._mode == "masked"
            and plan.allowed is None
            and cap is not None
            and len(plan.view) + len(plan.meta) > cap
        ):
            return (
                f"masked is not possible: {len(plan.view)} tools and {len(plan.meta)} meta tools are over the provider's "
                f"cap of {cap}; "
            )
        return ""

    def _warm(self, scene: Scene) -> list[Arrangement]:
        """Returns the possible arrangements while the provider's cache contains the array and the conversation after it."""
        plan = scene.plan
        if plan.allowed is not None:
            same = masked.widened(scene, plan.allowed)
            return [same if scene.fits(same.tools, same.tokens) else direct.rebuilt(scene)]
        joined = [behind.joined_behind(scene, way) for way in behind.ways(plan) if way != "array"]
        possible = [each for each in joined if each is not None]
        if self._mode == "native" and possible and possible[0].strategy == "native":
            return possible[:1]
        return [*possible, direct.appended(scene)]

    def _next_round(self, plan: DeliveryPlan, settled: Settled | None) -> Delivery:
        """Returns the delivery of a later round of a run: the tools in the plan, sent in the way of the first round.

        Prices are not compared again, even if the cache expired while the run was paused: a later round has no selection from
        which the array could be rebuilt.
        """
        behind_names = [name for name in plan.known if plan.view.get(name) is not None]
        delivery = self._definitions.delivery(
            "direct" if settled is None else settled.strategy,
            plan,
            plan.delivered,
            reused=True,
            note="as before the run paused" if settled is None else settled.note,
        )
        tokens_behind = self._definitions.tokens(plan, [DeliveredTool(name=name) for name in behind_names])
        allowed = None if plan.allowed is None else (*delivery.meta, *plan.allowed)
        return replace(
            delivery,
            tokens=delivery.tokens + tokens_behind,
            later_by=delivery.later_by if settled is None else settled.later_by,
            allowed=allowed,
            tokens_all=delivery.tokens_all if settled is None else settled.tokens_all,
        )


def _bill(plan: DeliveryPlan, best: Arrangement, terms: Terms, *, cold: bool) -> ExpectedBill:
    """Returns the expected bill of the next request: the tokens that are read from the provider's cache, written to it, and
    neither."""
    total = best.tokens + plan.history + plan.fresh
    read = 0 if cold else max(0, total - plan.fresh - best.rebilled - best.new_tokens)
    cached = terms.lifetime > 0 and total >= terms.minimum
    read = read if cached and read >= terms.minimum else 0
    written = total - read if cached else 0
    plain = total - read - written
    spent = read * terms.read + written * terms.write + plain
    dollars = None if terms.dollars is None else spent * terms.dollars
    return ExpectedBill(read=read, written=written, plain=plain, dollars=dollars)
