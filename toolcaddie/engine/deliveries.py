"""The tool array of a round: it follows from the state and from the strategy settled at the beginning of the run."""

from __future__ import annotations

from toolcaddie.core.delivery import DeliveryPlan
from toolcaddie.core.run import RunState
from toolcaddie.core.selection import Selection
from toolcaddie.engine.engine import DeliveryKey, Planned, Run


def delivery_key(state: RunState) -> DeliveryKey:
    return (state.delivered, state.meta, state.known, state.allowed)


def planned_for(run: Run, state: RunState, last: Planned | None) -> Planned:
    """Returns the last delivery if it still fits the state, otherwise a new one."""
    key = delivery_key(state)
    if last is not None and last.key == key:
        return last
    delivery = run.engine.planner.plan_next(
        DeliveryPlan(
            view=run.context.view,
            selection=Selection(tokens_all=run.selection.tokens_all),
            delivered=state.delivered,
            meta=[run.engine.meta_definition(name) for name in state.meta],
            budget=run.preset.budget,
            capabilities=run.engine.capabilities,
            known=state.known,
            referenced=state.referenced,
            allowed=state.allowed,
        ),
        state.settled,
    )
    return Planned(key=key, delivery=delivery)
