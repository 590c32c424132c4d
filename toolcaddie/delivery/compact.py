"""Strategy `compact`: the five meta tools and nothing else, the same bytes in every request."""

from __future__ import annotations

from toolcaddie.delivery.direct import Definitions, delivery_of
from toolcaddie.ports import DeliveryPlan
from toolcaddie.run import Delivery


def plan(plan: DeliveryPlan, definitions: Definitions) -> Delivery:
    return delivery_of(
        "compact",
        plan,
        definitions,
        (),
        reused=True,
        note=f"{len(plan.meta)} meta tools stand for {len(plan.view)} tools",
    )
