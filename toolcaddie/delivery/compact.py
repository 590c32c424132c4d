"""Strategy `compact`: instead of the catalog's tools, the model gets five meta tools to search and call them, and the tools that
the caller names. The array is the same in every request."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.delivery import DeliveredTool, Delivery, DeliveryPlan
from toolcaddie.delivery.definitions import Definitions


def pinned_tools(plan: DeliveryPlan) -> list[DeliveredTool]:
    return [DeliveredTool(name=name) for name in dict.fromkeys(plan.pinned) if plan.view.get(name) is not None]


def plan_compact(plan: DeliveryPlan, tools: Sequence[DeliveredTool], definitions: Definitions) -> Delivery:
    """Returns the delivery of the meta tools and `tools`: the pinned tools when a run begins, later those that were sent
    before."""
    note = f"{len(plan.meta)} meta tools stand for {len(plan.view)} tools"
    return definitions.delivery("compact", plan, tools, reused=True, note=note)
