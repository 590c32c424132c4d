"""Checks of a sink, which receives every event of every run: of many runs at once, and also of kinds that it does not know.

Part of the contract suite `SINK` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the promise
that it checks.
"""

from __future__ import annotations

import asyncio

import msgspec

from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.events import (
    CallDecided,
    CallFinished,
    CallIntended,
    CallProgressed,
    LimitReached,
    ModelAsked,
    RunEvent,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
)
from toolcaddie.core.run import RunResult, RunState
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.ports import EventSink
from toolcaddie.testing.contract import Checks, expect_equal
from toolcaddie.testing.part_contracts.subject import Subject

CHECKS: Checks[Subject[EventSink]] = Checks()


def events_of(run_id: str) -> list[RunEvent]:
    """Returns the events of a run with one call of a tool, in the order in which a sink receives them."""
    call = ToolCall(id="call_1", name="echo", arguments='{"text": "hello"}')
    state = RunState(run_id=run_id, status="completed", text="done")
    return [
        RunStarted(
            run_id=run_id,
            principal=Principal(tenant="acme", id="ann"),
            preset="default",
            model="contract-model",
            message="repeat hello",
            catalog_version="1",
            catalog_size=2,
        ),
        ModelAsked(run_id=run_id, round=1, provider="contract", model="contract-model", tools=2),
        CallDecided(run_id=run_id, call=call, decision=Decision(verdict="allow")),
        CallIntended(run_id=run_id, call=call),
        CallProgressed(run_id=run_id, call_id=call.id, tool=call.name, done=1, total=2),
        CallFinished(
            run_id=run_id, call=call, result=ToolResult(content="hello"), source="contract", seconds=0.1, number=1
        ),
        LimitReached(run_id=run_id, limit="rounds", detail="the limit of 5 rounds"),
        TextDelta(run_id=run_id, text="done"),
        RunFinished(run_id=run_id, result=RunResult(run_id=run_id, status="completed", text="done", state=state)),
    ]


@CHECKS.add()
async def it_takes_all_events_of_a_run(subject: Subject[EventSink]) -> None:
    sink = subject.make()
    for event in events_of("run_1"):
        await sink.emit(event)


@CHECKS.add()
async def it_takes_the_end_of_a_run_whose_beginning_it_never_saw(subject: Subject[EventSink]) -> None:
    await subject.make().emit(RunFailed(run_id="run_1", error="the process was stopped", kind="RunError"))


@CHECKS.add()
async def it_takes_events_of_a_kind_it_does_not_know(subject: Subject[EventSink]) -> None:
    kind = msgspec.defstruct("EventOfAnotherVersion", [("run_id", str)], frozen=True, kw_only=True)
    unknown: RunEvent = kind(run_id="run_1")  # type: ignore[assignment]  # a kind that a later version may add
    await subject.make().emit(unknown)


@CHECKS.add()
async def it_takes_runs_side_by_side(subject: Subject[EventSink]) -> None:
    sink = subject.make()

    async def run(run_id: str) -> None:
        for event in events_of(run_id):
            await sink.emit(event)
            await asyncio.sleep(0)

    await asyncio.gather(*(run(f"run_{number}") for number in range(20)))


@CHECKS.add()
async def it_leaves_events_as_they_are(subject: Subject[EventSink]) -> None:
    sink, events = subject.make(), events_of("run_1")
    for event in events:
        await sink.emit(event)
    expect_equal([repr(event) for event in events], [repr(event) for event in events_of("run_1")], "the events")
