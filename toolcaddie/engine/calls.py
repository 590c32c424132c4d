"""Runs the calls of one answer: first the calls of meta tools (Toolcaddie's own tools, such as `request_more_tools`), one after
another, then all others, and programs last. The results are always in the order of the answer."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolcaddie.control.admission import Admitted, admit
from toolcaddie.core.bots import BEGINS_RUNS
from toolcaddie.core.content import with_text
from toolcaddie.core.events import TextDelta
from toolcaddie.core.meta_names import READ_RESULT
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Finish, failed
from toolcaddie.engine.applying import apply
from toolcaddie.engine.batch import Batch
from toolcaddie.engine.engine import Run, Step
from toolcaddie.engine.limits import calls_are_over
from toolcaddie.engine.meta_calls import answer_meta_calls
from toolcaddie.engine.programs.running import Made, program_tool, run_programs


async def run_calls(run: Run, step: Step) -> Step:
    """Returns the next step of a run, after its pending calls were made. Raises `LimitExceededError` if there are more calls than
    the limit of the request allows."""
    answers = await answer_meta_calls(run, step.state, step.planned)
    made = await make_calls(run, Made(state=answers.state, outcomes=answers.outcomes))
    own = made.admitted
    made = await run_programs(run, made, make_calls)
    state, outcomes = _with_idle(run, made), made.outcomes
    if _reads_on(run) and any(item.result and item.result.held and not item.program for item in outcomes):
        state = replace(state, meta=tuple(dict.fromkeys((*state.meta, READ_RESULT))))
    state, outcomes = _with_repeats(run, state, own, outcomes)
    state = apply(state, outcomes)
    await run.record.store(state)
    if state.status == "completed" and run.live:  # a tool gave the answer, so no provider has streamed it
        await run.emit(TextDelta(run_id=state.run_id, text=state.text, ending=state.ending))
    return replace(step, state=state, planned=answers.planned)


async def make_calls(run: Run, made: Made) -> Made:
    """Makes the calls that have no result yet, apart from programs, and returns all calls with their results. Calls that must
    wait are marked. Raises `LimitExceededError`."""
    state, outcomes = made.state, list(made.outcomes)
    admitted = await _admitted(run, state, outcomes)
    refused = _refuse_over_limit(run, state, admitted, outcomes)
    outcomes = await _run_admitted(run, state, admitted, outcomes)
    called = tuple(call.tool.name for call in admitted.values())
    state = replace(state, calls=state.calls + len(admitted), called=(*state.called, *called))
    state = _entered(state, admitted, outcomes)
    if refused:
        await run.record.store(replace(state, pending=tuple(outcomes)))
        raise await calls_are_over(run)
    return Made(state=state, outcomes=outcomes, admitted={**made.admitted, **admitted})


async def _admitted(run: Run, state: RunState, outcomes: list[PendingCall]) -> dict[int, Admitted]:
    """Returns the calls that pass all gates, by their index in the answer. The results of refused calls, and calls that must
    wait, are entered into `outcomes`."""
    admitted: dict[int, Admitted] = {}
    for index, pending in enumerate(outcomes):
        if pending.result is None and pending.waiting != "client" and program_tool(run, state, pending) is None:
            gated = await admit(pending, gates=run.engine.gates, context=run.context, state=state, emit=run.emit)
            if isinstance(gated, Admitted):
                admitted[index] = gated
            else:
                outcomes[index] = _in_own_words(gated)
                await asyncio.sleep(
                    0
                )  # an answer may have hundreds of wrong calls, and each costs a search of all names
    return admitted


def _in_own_words(refused: PendingCall) -> PendingCall:
    """Returns a call that did not run, and so brought nothing from outside."""
    if refused.result is None:
        return refused
    return replace(refused, result=dataclasses.replace(refused.result, own_words=True))


def _refuse_over_limit(run: Run, state: RunState, admitted: dict[int, Admitted], outcomes: list[PendingCall]) -> bool:
    """Enters a refusal into `outcomes` for each call above the limit of the request, and removes it from `admitted`. Returns True
    if there were any."""
    limit = run.limits.calls
    refused = [] if limit is None else list(admitted)[max(0, limit - state.calls) :]
    for index in refused:
        detail = f"the limit of {limit} tool calls in one request is reached"
        outcomes[index] = replace(outcomes[index], result=failed(f"Not run: {detail}.", "limit", own_words=True))
        del admitted[index]
    return bool(refused)


async def _run_admitted(
    run: Run, state: RunState, admitted: Mapping[int, Admitted], outcomes: list[PendingCall]
) -> list[PendingCall]:
    """Runs the admitted calls and returns all outcomes. If the batch is interrupted, its outcomes are stored, so that no call
    that has run is repeated."""
    if not admitted:
        return outcomes
    together = _runs_concurrently(run, admitted)
    batch = Batch(run, state, admitted=admitted, outcomes=outcomes)
    try:
        await batch.run(together=together)
    except BaseException:
        await _break_off(run, state, batch)
        raise
    return batch.outcomes()


async def _break_off(run: Run, state: RunState, batch: Batch) -> None:
    """Stores the outcomes of a batch that was interrupted, so that the run can be resumed from them."""
    acted = tuple(call.tool.name for call in batch.acted())
    outcomes = batch.outcomes()
    state = replace(state, pending=tuple(outcomes), calls=state.calls + len(acted), called=(*state.called, *acted))
    await run.record.store(_entered(state, batch.admitted, outcomes))


def _entered(state: RunState, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]) -> RunState:
    """Returns the state after these calls: tainted, with what they have used, and with those that succeeded."""
    state = _with_spent(_tainted(state, admitted, outcomes), admitted, outcomes)
    return _with_succeeded(state, admitted, outcomes)


def _with_spent(state: RunState, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]) -> RunState:
    """Returns the state with the use of the runs that were made inside the calls."""
    results = (outcomes[index].result for index in admitted)
    spent = [result.spent for result in results if result is not None and result.spent is not None]
    if not spent:
        return state
    return replace(
        state,
        calls=state.calls + sum(each.calls for each in spent),
        usage=sum((each.usage for each in spent), state.usage),
        taint=tuple(dict.fromkeys((*state.taint, *(name for each in spent for name in each.taint)))),
    )


def _tainted(state: RunState, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]) -> RunState:
    """Returns the state with the tools whose untrusted results the model is about to read."""
    results = ((call.tool, outcomes[index].result) for index, call in admitted.items())
    names = (tool.name for tool, result in results if tool.untrusted and result is not None and not result.own_words)
    taint = tuple(dict.fromkeys((*state.taint, *names)))
    return state if taint == state.taint else replace(state, taint=taint)


def _with_succeeded(state: RunState, admitted: Mapping[int, Admitted], outcomes: Sequence[PendingCall]) -> RunState:
    """Returns the state with the tools that have a successful call."""
    results = ((call.tool.name, outcomes[index].result) for index, call in admitted.items())
    names = (name for name, result in results if result is not None and result.success)
    succeeded = tuple(dict.fromkeys((*state.succeeded, *names)))
    return state if succeeded == state.succeeded else replace(state, succeeded=succeeded)


def _runs_concurrently(run: Run, admitted: Mapping[int, Admitted]) -> bool:
    """Returns True if the calls may run at the same time."""
    if any(BEGINS_RUNS in call.tool.tags for call in admitted.values()):
        return False  # each of these may use what the others have left of the budget
    if run.preset.batch == "auto":
        return all(call.tool.runs_concurrently for call in admitted.values())
    return run.preset.batch == "concurrent"


def _with_idle(run: Run, made: Made) -> RunState:
    """Returns the state with the number of idle rounds: rounds whose calls ran no tool. A round is not idle if a call waits for a
    person or the caller, because that call will still run, or if a meta tool gave the answer of the run."""
    state = made.state
    for item in made.outcomes:
        answers = item.result is not None and isinstance(item.result.effect, Finish)
        if made.admitted or item.waiting or answers or run.belongs_to_caller(item.call.name):
            return replace(state, idle_in_row=0) if state.idle_in_row else state
    return replace(state, idle_rounds=state.idle_rounds + 1, idle_in_row=state.idle_in_row + 1)


def _reads_on(run: Run) -> bool:
    """Returns True if the model may get `read_result`. If the catalog or the caller has a tool of that name, that tool is used
    instead."""
    return run.engine.held is not None and run.context.view.get(READ_RESULT) is None


def _with_repeats(
    run: Run, state: RunState, admitted: Mapping[int, Admitted], outcomes: list[PendingCall]
) -> tuple[RunState, list[PendingCall]]:
    """Counts how often the same call gave the same result in consecutive rounds. From `limits.repeats_warn` on, the result warns
    the model; from `limits.repeats_stop` on, the model gets no more tools."""
    limits = run.limits
    if limits.repeats_warn is None:
        return state, outcomes
    earlier, counts = dict(state.repeats), {}
    for index, call in admitted.items():
        result = outcomes[index].result
        if result is None or call.tool.polling:
            continue
        key = hashlib.sha256(canonical_json([call.tool.name, call.arguments, result.content])).hexdigest()
        count = counts[key] = earlier.get(key, 0) + 1
        if count >= limits.repeats_warn:
            note = f"\n\n(The same call gave the same result {count} times in a row. Change something, or answer.)"
            result = dataclasses.replace(result, content=with_text(result.content, note))
            outcomes[index] = replace(outcomes[index], result=result)
    closing = limits.repeats_stop is not None and any(count >= limits.repeats_stop for count in counts.values())
    return replace(state, repeats=tuple(counts.items()), closing=state.closing or closing), outcomes
