"""Interfaces (sockets, which plugins fill) for choosing the tools of a request and planning how they are sent to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolcaddie.core.catalog import View
from toolcaddie.core.delivery import Delivery, DeliveryPlan, Settled
from toolcaddie.core.selection import Budget, SelectedTool, Selection, SelectionQuery


class Selector(Protocol):
    """Finds the tools of a view that fit a request. Pure: no I/O, the same answer for the same input in every process."""

    def select(self, view: View, query: SelectionQuery, budget: Budget) -> Selection:
        """Returns the tools of the view (the tools of the catalog that the caller may see) that fit the request, within
        `budget`: limits on their number and their tokens."""
        ...

    def search(self, view: View, text: str, limit: int) -> Sequence[SelectedTool]:
        """Returns the best matches of a text, best first, without tools that do not match at all."""
        ...


class Planner(Protocol):
    """Decides how the tools of a model call are sent."""

    def plan_first(self, plan: DeliveryPlan) -> Delivery:
        """Returns the delivery of a run's first model call, which settles the strategy of all its rounds."""
        ...

    def plan_next(self, plan: DeliveryPlan, settled: Settled | None) -> Delivery:
        """Returns the delivery of a later round: the tools of the run's state, by the strategy that the first one
        settled. `settled` is None if the stored run does not hold that strategy."""
        ...
