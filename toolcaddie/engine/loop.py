"""The loop of a run: ask the model, execute the calls, enter their results; repeat until there is an answer, a call that waits
for somebody, or a limit.

It depends only on values and ports (interfaces). A run is a `RunState`, and each step makes the next one; only `apply` enters the
results of calls. Everything that happens is emitted as an event, also to a caller who reads the run as a stream.
"""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from toolcaddie.core.delivery import Delivery, Settled
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.events import Emit
from toolcaddie.core.run import RunContext, RunResult, RunState
from toolcaddie.core.selection import Selection
from toolcaddie.engine.calls import run_calls
from toolcaddie.engine.engine import Admit, Checkpoint, Engine, Planned, Record, Run, Step, delivery_key, not_stored
from toolcaddie.engine.limits import limits_within, time_is_over
from toolcaddie.engine.rounds import ask_round


async def drive(
    engine: Engine,
    state: RunState,
    context: RunContext,
    selection: Selection,
    emit: Emit,
    *,
    live: bool,
    delivery: Delivery | None = None,
    admit: Admit | None = None,
    checkpoint: Checkpoint = not_stored,
) -> RunResult:
    """Continues a run from `state` until it is completed, or waits for an approval or for tools that the caller runs.

    `live`: True streams answers from the provider. `delivery`: the planned tool array from which `state` was made; None: it is
    planned again. `admit`: asked before each model call; None: the run has no budget. Raises `RunError` and `ProviderError`.
    After an error, the run can be resumed from the last state that was passed to `checkpoint`.
    """
    limits = limits_within(engine.preset.limits, context.inherited)
    seconds = limits.seconds
    seconds_left = None if seconds is None else max(0.0, seconds - state.seconds)
    context = replace(context, began=time.monotonic() - state.seconds)
    planned = None
    if delivery is not None:
        state = replace(state, settled=Settled.of(delivery))
        planned = Planned(key=delivery_key(state), delivery=delivery)
    run = Run(
        engine=engine,
        context=context,
        selection=selection,
        emit=emit,
        live=live,
        record=Record(state, checkpoint),
        admit=admit,
        preset=engine.preset,
        limits=limits,
    )
    try:
        async with asyncio.timeout(seconds_left) as clock:
            return _result(run, await _steps(run, Step(state=state, planned=planned)))
    except TimeoutError:
        if not clock.expired():
            raise
        error = await time_is_over(run)
        error.state = _failed_state(run)
        raise error from None
    except ToolcaddieError as error:
        error.state = _failed_state(run)
        raise


async def _steps(run: Run, step: Step) -> Step:
    """Makes one step after another until the run is no longer running."""
    seconds = run.limits.seconds
    while step.state.status == "running":
        # A timeout takes effect only at an await, and a provider may never wait.
        if seconds is not None and step.state.seconds >= seconds:
            raise await time_is_over(run)
        step = await (run_calls(run, step) if step.state.pending else ask_round(run, step))
        step = replace(step, state=replace(step.state, seconds=run.context.elapsed))
        run.record.state = step.state
    return step


def _result(run: Run, step: Step) -> RunResult:
    """Returns the result of a run from its last step."""
    state = step.state
    return RunResult(
        run_id=state.run_id,
        status=state.status,
        text=state.text,
        state=state,
        selection=run.selection,
        client_calls=tuple(item.call for item in state.pending if item.waiting == "client"),
        raw=step.raw,
        provider=state.provider or run.engine.provider.name,
    )


def _failed_state(run: Run) -> RunState:
    return replace(run.record.state, status="failed", seconds=run.context.elapsed)
