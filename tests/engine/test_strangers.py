"""Runs with untrusted parts: code that raises, listeners that are slow, models that write a thousand calls."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Category, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.events import ModelAsked, RunEvent, RunFailed, RunStarted, TextDelta
from toolcaddie.core.meta_names import GET_TOOL_SCHEMA, SEARCH_TOOLS
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import CLIENT_SOURCE, Tool, ToolResult
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)


class Boom:
    """A policy, an approver and a middleware, each of which raises at a chosen place."""

    version = "1"

    def __init__(self, where: str) -> None:
        self._where = where

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        if self._where == "policy":
            raise AttributeError("boom")
        return Decision(verdict="ask" if self._where == "approver" else "allow")

    async def approve(self, *about: Any) -> bool | None:
        raise AttributeError("boom")

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        raise AttributeError("boom")


async def collected(stream: AsyncIterator[RunEvent]) -> list[RunEvent]:
    return [event async for event in stream]


def looks() -> Any:
    @tool(read_only=True, category="sights")
    async def look() -> str:
        """Look."""
        return "seen"

    return look


@pytest.mark.parametrize("where", ["policy", "approver", "middleware"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_that_a_stranger_breaks_has_an_end_on_record(where: str, streamed: bool) -> None:
    boom, recorder = Boom(where), Recorder()
    runtime = Runtime(
        provider=ScriptedProvider([call("look")]),
        sources=[looks()],
        policy=boom,
        approver=boom,
        middleware=[boom] if where == "middleware" else [],
        trail=recorder,
    )
    answer = collected(runtime.stream("look")) if streamed else runtime.run("look")
    with pytest.raises(AttributeError, match="boom"):
        await answer
    assert isinstance(recorder.events[0], RunStarted)
    end = recorder.events[-1]
    assert isinstance(end, RunFailed)
    assert (end.kind, end.error) == ("AttributeError", "boom")


async def test_a_slow_listener_slows_the_run_down() -> None:
    recorder = Recorder()
    provider = ScriptedProvider([call("look")] * 200 + [say("done")])
    runtime = Runtime(provider=provider, sources=[looks()], sinks=[recorder], preset="compact")
    stream = runtime.stream("look")
    await anext(stream)
    while True:  # until the run does nothing more
        before = len(recorder.events)
        for _ in range(200):
            await asyncio.sleep(0)
        if len(recorder.events) == before:
            break
    assert len(recorder.events) < 80
    assert any(isinstance(event, ModelAsked) for event in recorder.events)
    await stream.aclose()
    assert isinstance(recorder.events[-1], RunFailed)


async def test_leaving_a_failed_run_causes_no_complaint_of_the_event_loop() -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
    stream = Runtime(provider=ScriptedProvider([RuntimeError("boom")])).stream("hello")
    async for event in stream:
        if isinstance(event, RunFailed):
            break
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await stream.aclose()
    gc.collect()
    await asyncio.sleep(0)
    assert not complaints


async def test_of_a_thousand_calls_in_one_answer_256_are_processed() -> None:
    ran = []

    @tool(read_only=True)
    def look(at: int) -> str:
        """Look."""
        ran.append(at)
        return "seen"

    provider = ScriptedProvider(
        [calls(*(("nothing_like_it", {}) for _ in range(250)), *(("look", {"at": n}) for n in range(750))), say("ok")]
    )
    await Runtime(provider=provider, sources=[look]).run("look")
    assert sorted(ran) == list(range(6))
    told = [str(message.content) for message in provider.requests[1].messages if message.role == "tool"]
    assert len(told) == 1_000
    assert sum("256 calls" in text for text in told) == 744


class Large:
    """Ten thousand tools."""

    name = "large"
    revision = 1

    def __init__(self) -> None:
        schema = {"type": "object", "properties": {"note": {"type": "string", "description": "What to write down."}}}
        self._tools = [
            Tool(
                name=f"{('freeze', 'update', 'delete', 'list')[number % 4]}_object_{number}",
                description=f"Works on object {number} of a customer.",
                input_schema=schema,
                category=f"part_{number % 50}",
                source="large",
            )
            for number in range(10_000)
        ]

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return []

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return ToolResult(content="done")


class Watch:
    """The longest time in which the event loop did nothing else."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def __aenter__(self) -> Watch:
        self._task = asyncio.create_task(self._look())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *failure: Any) -> None:
        await asyncio.sleep(0)
        self._task.cancel()

    async def _look(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


def added_up(numbers: int) -> float:
    """The CPU time of a fixed piece of work, as a measure of this machine at this moment."""
    before, total = time.thread_time(), 0
    for number in range(numbers):
        total += number
    return time.thread_time() - before


@pytest.fixture(scope="module")
def ten_thousand() -> Large:
    return Large()


@pytest.mark.parametrize(
    "reply",
    [
        calls(*((f"freze_objct_{number}", {}) for number in range(250))),
        calls(*((GET_TOOL_SCHEMA, {"tool_name": f"freze_objct_{number}"}) for number in range(250))),
        call(SEARCH_TOOLS, {"query": "zq " * 300_000}),
    ],
    ids=["unknown names", "unknown schemas", "a megabyte of query"],
)
async def test_a_model_cannot_hold_up_other_runs(ten_thousand: Large, reply: Any) -> None:
    """In CPU time of the loop's thread; before, these took two and a half seconds, five and sixty. The bar is a second of a
    machine that adds thirty million numbers in that time, because a machine that others use too may be several times slower."""
    provider = ScriptedProvider([reply, say("ok")])
    runtime = Runtime(provider=provider, sources=[ten_thousand])
    runtime.select("freeze an object")
    async with Watch() as watch:
        await runtime.run("freeze an object")
    assert watch.longest < 10 * added_up(3_000_000)
    told = str(provider.requests[1].messages[-1].content)
    assert reply.calls[0].name == SEARCH_TOOLS or "freeze_object" in told


async def test_a_new_list_of_tools_beside_a_large_catalog_does_not_hold_up_the_loop(
    ten_thousand: Large,
) -> None:
    runtime = Runtime(provider=ScriptedProvider([say("ok")]), sources=[ten_thousand])
    tools = [Tool(name=f"mine_{number}", source=CLIENT_SOURCE) for number in range(3)]
    async with Watch() as watch:
        assert (await runtime.run("freeze an object", client_tools=tools)).text == "ok"
    assert watch.longest < added_up(3_000_000)


def test_many_callers_with_large_tools_do_not_fill_the_memory() -> None:
    """Measured from outside: evicted entries are collected."""
    runtime = Runtime(provider=ScriptedProvider([]))
    for number in range(40):
        values = [f"{number} {'x' * 1_000} {value}" for value in range(3_000)]
        schema = {"type": "object", "properties": {"q": {"enum": values}}}
        runtime.select("q", client_tools=[Tool(name="big", input_schema=schema, source=CLIENT_SOURCE)])
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, list) and len(each) == 3_000]
    assert 0 < len(kept) < 20


async def test_a_stream_that_is_read_to_its_end_gives_all_of_a_long_answer() -> None:
    long = " ".join(str(number) for number in range(2_000))
    stream = Runtime(provider=ScriptedProvider([say(long)])).stream("hello")
    assert "".join([event.text async for event in stream if isinstance(event, TextDelta)]) == long
