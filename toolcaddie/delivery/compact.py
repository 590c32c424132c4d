"""Strategy `compact`: five meta tools, the same bytes in every request, and the tools that the caller names."""

from __future__ import annotations

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.delivery.definitions import Definitions


def plan_compact(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    note = f"{len(plan.meta)} meta tools stand for {len(plan.view)} tools"
    pinned = [DeliveredTool(name=name) for name in dict.fromkeys(plan.pinned) if plan.view.get(name) is not None]
    tools = plan.delivered if plan.under_way else pinned
    return definitions.delivery("compact", plan, tools, reused=True, note=note)
