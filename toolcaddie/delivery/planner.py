"""The planner: one strategy a file, chosen by what the preset exposes."""

from __future__ import annotations

from typing import Literal

from toolcaddie.delivery import compact, direct
from toolcaddie.ports import DeliveryPlan
from toolcaddie.run import Delivery


class DeliveryPlanner:
    """Fulfils `ports.Planner`. `compact` exposure sends the five meta tools; everything else goes `direct`."""

    def __init__(self, exposure: Literal["selected", "all", "compact"] = "selected") -> None:
        self._plan = compact.plan if exposure == "compact" else direct.plan
        self._definitions = direct.Definitions()

    def plan(self, plan: DeliveryPlan) -> Delivery:
        return self._plan(plan, self._definitions)
