"""Strategy `compact`: five meta tools, the same bytes in every request, and the tools that the caller names."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.delivery.definitions import Definitions


def pinned_tools(plan: DeliveryPlan) -> list[DeliveredTool]:
    return [DeliveredTool(name=name) for name in dict.fromkeys(plan.pinned) if plan.view.get(name) is not None]


def plan_compact(plan: DeliveryPlan, tools: Sequence[DeliveredTool], definitions: Definitions) -> Delivery:
    """Returns the meta tools and these tools, which are the pinned ones when a run begins."""
    note = f"{len(plan.meta)} meta tools stand for {len(plan.view)} tools"
    return definitions.delivery("compact", plan, tools, reused=True, note=note)
