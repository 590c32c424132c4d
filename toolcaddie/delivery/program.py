"""Strategy `program`: the tools are sent in any other way, with a meta tool for programs (`run_program`) among the meta tools.

A program makes many calls in one round (model call), and the model reads only what it prints. So rounds are saved, and most
results never enter the conversation. The price is the definition of the meta tool, which every request carries.
"""

from __future__ import annotations

from toolcaddie.core.delivery import Delivery, DeliveryPlan
from toolcaddie.core.meta_names import RUN_PROGRAM
from toolcaddie.delivery.arrangement import Arrangement
from toolcaddie.delivery.costs import Outlook
from toolcaddie.util.replacing import replace


def offers_programs(plan: DeliveryPlan) -> bool:
    return any(tool.name == RUN_PROGRAM for tool in plan.meta)


def without_programs(plan: DeliveryPlan) -> DeliveryPlan:
    """Returns the plan without the meta tool for programs."""
    return replace(plan, meta=[tool for tool in plan.meta if tool.name != RUN_PROGRAM])


def with_programs(arrangement: Arrangement, outlook: Outlook) -> Arrangement:
    """Returns an arrangement that sends the meta tool for programs, with what programs are expected to save. Its tokens include
    those of the meta tool already."""

    def make() -> Delivery:
        delivery = arrangement.make()
        return replace(delivery, strategy="program", note=f"{delivery.note}; programs are expected to pay")

    return replace(
        arrangement,
        name=f"{arrangement.name}, with programs",
        strategy="program",
        expected=arrangement.expected - outlook.saved_by_programs(arrangement.tokens),
        make=make,
    )
