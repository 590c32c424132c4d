"""The counters of a run, and what happens at the end of each."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from toolcaddie.core.errors import LimitExceededError, ToolNotCalledError
from toolcaddie.core.events import CallFinished, LimitReached, RunEvent
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunContext
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.telemetry import StructlogSink
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


def numbered(count: int) -> FunctionSource:
    made = []
    for number in range(count):

        def run(value: int = 0) -> str:
            return f"ran with {value}"

        run.__name__ = f"tool_{number}"
        run.__doc__ = f"Tool number {number}."
        made.append(tool(run))
    return FunctionSource("numbered", made)


class Recorder:
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)


@pytest.mark.proves("R002-13", "R002-14", "R002-15", "R002-17", "R000-34")
async def test_five_rounds_with_tools_then_one_without_whose_calls_are_ignored() -> None:
    provider = ScriptedProvider(lambda request: call("tool_0", {"value": len(request.messages)}))
    result = await Runtime(provider=provider, sources=[numbered(3)], preset="multibot").run("go")
    assert [len(request.tools) for request in provider.requests] == [3, 3, 3, 3, 3, 0]
    assert result.state.calls == 5
    assert provider.requests[-1].messages[-1].role == "system"


@pytest.mark.proves("R002-16", "R002-17")
async def test_an_empty_last_round_gives_the_fallback_message_and_a_full_one_its_text() -> None:
    empty = ScriptedProvider(lambda request: call("tool_0", {"value": len(request.messages)}))
    result = await Runtime(provider=empty, sources=[numbered(1)], preset="multibot").run("go")
    assert "could not finish" in result.text
    telling = ScriptedProvider(
        lambda request: call("tool_0", {"value": len(request.messages)}) if request.tools else say("This far I came.")
    )
    result = await Runtime(provider=telling, sources=[numbered(1)], preset="multibot").run("go")
    assert result.text == "This far I came."


@pytest.mark.proves("R002-14")
async def test_the_number_of_rounds_is_a_setting() -> None:
    provider = ScriptedProvider(lambda request: call("tool_0", {"value": len(request.messages)}))
    two = replace(PRESETS["multibot"], limits=replace(PRESETS["multibot"].limits, rounds=2))
    await Runtime(provider=provider, sources=[numbered(1)], preset=two).run("go")
    assert [len(request.tools) for request in provider.requests] == [1, 1, 0]


@pytest.mark.proves("R002-18")
async def test_calls_of_one_round_run_one_after_another_in_the_multibot_preset() -> None:
    running, most = 0, 0

    @tool
    async def step(number: int) -> str:
        """One step."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return str(number)

    provider = ScriptedProvider([calls(("step", {"number": 1}), ("step", {"number": 2})), say("x")])
    await Runtime(provider=provider, sources=[step], preset="multibot").run("go")
    assert most == 1


@pytest.mark.proves("R004-3", "R004-4", "R004-5")
async def test_75_calls_succeed_and_the_76th_fails_the_request() -> None:
    recorder = Recorder()

    def script(request: Any) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        return call("execute_tool", {"tool_name": "tool_0", "arguments": {"value": done}})

    runtime = Runtime(provider=ScriptedProvider(script), sources=[numbered(54)], preset="compact", sinks=[recorder])
    with pytest.raises(LimitExceededError, match="75") as failure:
        await runtime.run("go on")
    assert failure.value.limit == "calls"
    ran = [event for event in recorder.events if isinstance(event, CallFinished)]
    assert [event.number for event in ran] == list(range(1, 76))
    assert not any(event.result.is_error for event in ran)
    assert any(isinstance(event, LimitReached) and event.limit == "calls" for event in recorder.events)


@pytest.mark.proves("R004-5")
async def test_calls_are_counted_in_call_order_before_anything_starts() -> None:
    recorder = Recorder()
    four = replace(PRESETS["budget"], limits=replace(PRESETS["budget"].limits, calls=4), meta=())
    provider = ScriptedProvider([calls(*(("tool_0", {"value": n}) for n in range(6)))])
    runtime = Runtime(provider=provider, sources=[numbered(1)], preset=replace(four, exposure="all"), sinks=[recorder])
    with pytest.raises(LimitExceededError):
        await runtime.run("go")
    ran = [event.call.arguments for event in recorder.events if isinstance(event, CallFinished)]
    assert sorted(msgspec.json.decode(arguments)["value"] for arguments in ran) == [0, 1, 2, 3]


@pytest.mark.proves("R004-6", "R004-11")
async def test_the_limit_of_calls_is_per_request() -> None:
    def script(request: Any) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        if done == 70:
            return call("respond", {"message": "all done"})
        return call("execute_tool", {"tool_name": "tool_1", "arguments": {"value": done}})

    runtime = Runtime(provider=ScriptedProvider(script), sources=[numbered(54)], preset="compact")
    for _ in range(3):
        result = await runtime.run("again")
        assert (result.text, result.state.calls) == ("all done", 70)


async def test_a_run_over_its_time_fails_and_cancels_what_was_running() -> None:
    cancelled = asyncio.Event()

    @tool
    async def endless() -> str:
        """Never ends."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    quick = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, seconds=0.05))
    runtime = Runtime(provider=ScriptedProvider([call("endless")]), sources=[endless], preset=quick)
    with pytest.raises(LimitExceededError) as failure:
        await runtime.run("go")
    assert failure.value.limit == "seconds"
    assert cancelled.is_set()


async def test_a_run_over_its_tokens_fails_before_the_next_model_call() -> None:
    provider = ScriptedProvider(lambda request: call("tool_0", {"value": len(request.messages)}))
    frugal = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, tokens=200))
    with pytest.raises(LimitExceededError, match="220 of its 200 tokens") as failure:
        await Runtime(provider=provider, sources=[numbered(2)], preset=frugal).run("go")
    assert failure.value.limit == "tokens"
    assert len(provider.requests) == 2


def with_limits(preset: str, **limits: Any) -> Any:
    return replace(PRESETS[preset], limits=replace(PRESETS[preset].limits, **limits))


@pytest.mark.parametrize(
    ("preset", "script", "limit", "detail"),
    [
        (with_limits("default", tokens=200), call("tool_0", {"value": 1}), "tokens", "220 of 200 tokens"),
        (with_limits("default", rounds=2, calls=None), call("tool_0", {"value": 1}), "rounds", "2 rounds"),
        (with_limits("default", calls=1), call("tool_0", {"value": 1}), "calls", "1 calls"),
        (
            with_limits("compact", idle_rounds=2),
            call("list_tools"),
            "idle_rounds",
            "2 rounds ran no tool, the limit is 2",
        ),
        (
            with_limits("compact", idle_rounds_in_row=2),
            call("list_tools"),
            "idle_rounds_in_row",
            "2 rounds in a row ran no tool, the limit is 2",
        ),
        (PRESETS["forced"], say("No tool for me."), "forced_attempts", "no tool was called in 3 attempts"),
        (
            with_limits("forced", forced_attempts=1),
            say("No tool for me."),
            "forced_attempts",
            "no tool was called in 1 attempt",
        ),
    ],
)
async def test_each_limit_that_is_reached_is_an_event_with_its_name_and_the_numbers(
    preset: Any, script: Any, limit: str, detail: str
) -> None:
    recorder = Recorder()
    provider = ScriptedProvider(lambda request: script)
    with contextlib.suppress(LimitExceededError):
        await Runtime(provider=provider, sources=[numbered(2)], preset=preset, sinks=[recorder]).run("go")
    (reached,) = [event for event in recorder.events if isinstance(event, LimitReached)]
    assert (reached.limit, reached.detail) == (limit, detail)


async def test_a_call_over_the_limit_says_so_in_the_state_of_the_error() -> None:
    provider = ScriptedProvider([calls(("tool_0", {"value": 1}), ("tool_1", {"value": 2}))])
    with pytest.raises(LimitExceededError, match="more than 1 tool calls") as failure:
        await Runtime(provider=provider, sources=[numbered(2)], preset=with_limits("default", calls=1)).run("go")
    first, second = failure.value.state.pending
    assert (first.result.content, first.result.error) == ("ran with 1", None)
    assert second.result.error == "limit"
    assert second.result.content == "Not run: the limit of 1 tool calls in one request is reached."


async def test_a_run_with_all_its_time_used_up_fails_before_its_next_step() -> None:
    """The clock of asyncio does not end such a run, because nothing in it waits."""
    recorder = Recorder()
    provider = ScriptedProvider(lambda request: call("list_tools"))
    quick = with_limits("compact", seconds=0.05, idle_rounds=None, idle_rounds_in_row=None)
    with pytest.raises(LimitExceededError) as failure:
        await Runtime(provider=provider, sources=[numbered(2)], preset=quick, sinks=[recorder]).run("go")
    assert (failure.value.limit, failure.value.state.status) == ("seconds", "failed")
    assert failure.value.state.seconds >= 0.05
    (reached,) = [event for event in recorder.events if isinstance(event, LimitReached)]
    assert (reached.limit, reached.detail) == ("seconds", "0.05 s")


async def test_a_model_that_repeats_itself_is_warned_and_then_loses_its_tools() -> None:
    many = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, rounds=50))
    provider = ScriptedProvider(lambda request: call("tool_0", {"value": 1}) if request.tools else say("I give up."))
    result = await Runtime(provider=provider, sources=[numbered(2)], preset=many).run("go")
    assert result.text == "I give up."
    assert result.state.calls == 5
    said = [message.content for message in provider.requests[-1].messages if message.role == "tool"]
    assert ["in a row" in text for text in said] == [False, False, True, True, True]


async def test_a_call_of_a_polling_tool_is_no_repeat() -> None:
    @tool(polling=True)
    def status() -> str:
        """Ask how far it is."""
        return "running"

    many = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, rounds=9))
    provider = ScriptedProvider(lambda request: call("status") if request.tools else say("still running"))
    result = await Runtime(provider=provider, sources=[status], preset=many).run("go")
    assert result.state.calls == 9


async def test_forced_use_asks_again_from_the_original_message_and_counts_attempts() -> None:
    provider = ScriptedProvider([say("I think..."), say("I think..."), call("tool_0"), say("done")])
    result = await Runtime(provider=provider, sources=[numbered(2)], preset="forced").run("look it up")
    texts = [request.messages[0].text for request in provider.requests]
    assert texts[0] == "look it up"
    assert all(text.startswith("look it up") and len(text) > len("look it up") for text in texts[1:3])
    assert texts[1] not in texts[2], "each attempt starts from the original message"
    assert texts[3] == "look it up"
    assert (result.text, result.state.forced, result.state.rounds) == ("done", 2, 2)


async def test_forced_use_that_never_succeeds_ends_as_the_settings_say() -> None:
    provider = ScriptedProvider(lambda request: say("No tool for me."))
    result = await Runtime(provider=provider, sources=[numbered(2)], preset="forced").run("look it up")
    assert (result.text, len(provider.requests)) == ("No tool for me.", 3)
    strict = replace(PRESETS["forced"], on_not_called="error")
    with pytest.raises(ToolNotCalledError, match="3 attempts"):
        await Runtime(provider=provider, sources=[numbered(2)], preset=strict).run("look it up")


@pytest.mark.proves("R004-1", "R004-2", "R004-7", "R004-8", "R004-9", "R004-10", "R004-11")
async def test_145_tools_all_answer_while_tools_come_and_go_during_the_request() -> None:
    source = numbered(145)
    revoked = {f"tool_{number}" for number in range(0, 145, 10)}

    @tool
    def newcomer() -> str:
        """Came during the request."""
        return "new"

    def script(request: Any) -> Any:
        for name in revoked:
            source.remove(name)
        source.add(newcomer)
        wanted = [
            ("execute_tool", {"tool_name": f"tool_{number}", "arguments": {"value": number}}) for number in range(145)
        ]
        return calls(*wanted)

    asked: list[Any] = []

    def first_then_answer(request: Any) -> Any:
        asked.append(request)
        return script(request) if len(asked) == 1 else call("respond", {"message": "done"})

    recorder = Recorder()
    limits = replace(PRESETS["compact"].limits, calls=145, rounds=None)
    runtime = Runtime(
        provider=ScriptedProvider(first_then_answer),
        sources=[source],
        preset=replace(PRESETS["compact"], limits=limits),
        sinks=[recorder],
    )
    result = await runtime.run("call them all")
    assert result.text == "done"
    finished = {e.call.name: e.result for e in recorder.events if isinstance(e, CallFinished)}
    assert len(finished) == 145
    assert {name for name, outcome in finished.items() if outcome.error == "revoked"} == revoked
    assert all(not outcome.is_error for name, outcome in finished.items() if name not in revoked)
    assert runtime.source.snapshot().get("newcomer") is not None


@pytest.mark.proves("R004-7", "R004-12")
async def test_a_thousand_requests_leave_no_memory_behind() -> None:
    def script(request: Any) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return call("respond", {"message": "done"})
        return calls(*(("execute_tool", {"tool_name": f"tool_{n}", "arguments": {"value": n}}) for n in range(3)))

    provider = ScriptedProvider(script)
    runtime = Runtime(provider=provider, sources=[numbered(145)], preset="compact")
    tracemalloc.start()
    try:
        for number in range(1_000):
            await runtime.run("go")
            provider.requests.clear()
            if number == 200:
                gc.collect()  # cycles that wait for the collector are not left behind
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 256 * 1024


@pytest.mark.proves("R004-13")
async def test_a_request_has_variables_of_its_own_and_a_summary_in_the_log_at_its_end() -> None:
    seen: list[Any] = []

    @tool
    def remember(word: str, context: RunContext) -> str:
        """Remember a word for the rest of this request."""
        seen.append(context.variables.get("word"))
        context.variables["word"] = word
        return word

    def script(request: Any) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        return call("remember", {"word": f"w{done}"}) if done < 2 else say("done")

    assert PRESETS["compact"].limits.seconds == 300
    runtime = Runtime(provider=ScriptedProvider(script), sources=[remember], sinks=[StructlogSink()])
    with capture_logs() as lines:
        await runtime.run("go")
        await runtime.run("go")
    assert seen == [None, "w0", None, "w0"]
    summary = [line for line in lines if "elapsed" in line or "seconds" in line][-1]
    assert summary["calls"] == 2
    assert summary["rounds"] == 3


@pytest.mark.proves("R004-8")
async def test_two_requests_at_once_do_not_touch_each_other() -> None:
    together = asyncio.Barrier(2)

    def answers(request: Any) -> Any:
        own = request.messages[0].text
        if any(message.role == "tool" for message in request.messages):
            return say(f"{own}: {request.messages[-1].content}")
        return call("echo", {"text": own})

    @tool
    async def echo(text: str) -> str:
        """Say it back."""
        await together.wait()
        return text

    runtime = Runtime(provider=ScriptedProvider(answers), sources=[echo])
    one, two = await asyncio.gather(runtime.run("one"), runtime.run("two"))
    assert (one.text, two.text) == ("one: one", "two: two")
    assert (one.state.calls, two.state.calls) == (1, 1)
