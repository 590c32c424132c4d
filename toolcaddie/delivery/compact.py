"""Strategy `compact`: the five meta tools and nothing else, the same bytes in every request."""

from __future__ import annotations

from toolcaddie.delivery.definitions import Definitions
from toolcaddie.ports import DeliveryPlan
from toolcaddie.run import Delivery


def plan_compact(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    note = f"{len(plan.meta)} meta tools stand for {len(plan.view)} tools"
    return definitions.delivery("compact", plan, (), reused=True, note=note)
