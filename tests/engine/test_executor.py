"""The gates of a call, and everything bad that can come from a model or a tool."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie.control.bots import Bot
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.capabilities import CAPABILITIES
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import AuditError, RequestError, RunNotFoundError
from toolcaddie.core.events import CallDecided, CallFinished, CallIntended, RunEvent, RunPaused
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.tool import Finish, Tool, ToolResult
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)


@tool
def freeze(client_id: int, days: int = 7) -> str:
    """Freeze a membership."""
    return f"client {client_id} frozen for {days} days"


async def results_of(*steps: Any, sources: Any = (freeze,), **runtime: Any) -> list[str]:
    """Returns the text that the model read after its calls."""
    provider = ScriptedProvider([*steps, say("done")])
    result = await Runtime(provider=provider, sources=list(sources), **runtime).run("go")
    assert result.text == "done"
    return [message.content for message in provider.requests[-1].messages if message.role == "tool"]


@pytest.mark.proves("R002-1", "R002-2", "R002-3", "R002-4", "R002-13")
async def test_a_call_is_parsed_run_and_its_result_appended_as_a_tool_message() -> None:
    provider = ScriptedProvider([call("freeze", {"client_id": 3}, call_id="c1"), say("done")])
    await Runtime(provider=provider, sources=[freeze]).run("go")
    definition = provider.requests[0].tools[0]
    assert definition["type"] == "function"
    assert set(definition["function"]) == {"name", "description", "parameters"}
    answer = provider.requests[1].messages[-1]
    assert (answer.role, answer.tool_call_id, answer.content) == ("tool", "c1", "client 3 frozen for 7 days")


@pytest.mark.parametrize("arguments", ['{"client_id": ', "[1]", '"x"', "client 3", '{"client_id": 1}}', "\ud800"])
async def test_arguments_that_are_no_json_object_come_back_with_the_error_and_the_schema(arguments: str) -> None:
    (told,) = await results_of(call("freeze", arguments))
    assert "JSON" in told
    assert '"client_id"' in told


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({}, "client_id"), ({"client_id": "3"}, "client_id"), ({"client_id": 3, "dayz": 1}, "dayz")],
)
async def test_arguments_against_the_schema_name_the_field_and_never_reach_the_function(
    arguments: dict[str, Any], field: str
) -> None:
    (told,) = await results_of(call("freeze", arguments))
    assert field in told
    assert "schema" in told
    assert "frozen" not in told


@pytest.mark.proves("R002-12")
async def test_an_unknown_tool_gets_close_names_and_no_exception() -> None:
    (told,) = await results_of(call("freez", {"client_id": 3}))
    assert "no tool 'freez'" in told
    assert "freeze" in told


@pytest.mark.proves("R002-8", "R002-12")
async def test_a_disabled_tool_is_not_sent_and_refused_even_if_it_is_called() -> None:
    @tool
    def other() -> str:
        """Another tool."""
        return "ran"

    provider = ScriptedProvider([call("freeze", {"client_id": 1}), say("done")])
    bots = {"therapist": Bot(disabled_tools=("freeze",))}
    runtime = Runtime(provider=provider, sources=[freeze, other], bots=bots)
    await runtime.run("freeze it", principal=Principal(bot="therapist"))
    assert [d["function"]["name"] for d in provider.requests[0].tools] == ["other"]
    assert "no tool" in provider.requests[1].messages[-1].content


@pytest.mark.proves("R002-5", "R002-10", "R002-11", "R002-12")
async def test_an_executor_injects_chat_and_bot_over_what_the_model_sent() -> None:
    @tool
    def whoami(text: str, _chatId: str = "", _botId: str = "", **more: Any) -> str:
        """Say who asks."""
        return f"{text} {_chatId} {_botId}"

    runtime = Runtime(provider=ScriptedProvider([]), sources=[whoami], bots={"b": Bot()})
    execute = runtime.executor(chat_id="chat-7", bot_id="b")
    done = await execute("whoami", {"text": "hi"})
    assert (done.success, done.content) == (True, "hi chat-7 b")
    forged = await execute("whoami", {"text": "hi", "_chatId": "someone else's"})
    assert (forged.success, forged.content) == (True, "hi chat-7 b")
    missing = await execute("nothing", {})
    assert (missing.success, missing.error) == (False, "unknown_tool")


@pytest.mark.proves("R001-21")
async def test_a_visible_tool_that_was_not_sent_runs_all_the_same() -> None:
    made = []
    for number in range(200):

        def run() -> str:
            return "ran"

        run.__name__ = f"thing_{number}"
        run.__doc__ = f"Thing number {number}."
        made.append(tool(run))
    provider = ScriptedProvider([call("thing_150"), say("done")])
    result = await Runtime(provider=provider, sources=[FunctionSource("things", made)]).run("thing number 3")
    assert "thing_150" not in [d["function"]["name"] for d in provider.requests[0].tools]
    assert result.tool_calls == ("thing_150",)


@pytest.mark.proves("R001-20", "R001-23")
async def test_one_selection_serves_a_message_plain_and_streamed_and_settings_of_the_model_go_through() -> None:
    params = {"temperature": 0}
    provider = ScriptedProvider(
        [call("freeze", {"client_id": 1}), say("a"), call("freeze", {"client_id": 1}), say("a")]
    )
    runtime = Runtime(provider=provider, sources=[freeze])
    await runtime.run("go", params=params)
    events = [event async for event in runtime.stream("go", params=params)]
    assert [request.tools for request in provider.requests[:2]] == [request.tools for request in provider.requests[2:]]
    assert all(request.params == params for request in provider.requests)
    assert sum(type(event).__name__ == "ToolsSelected" for event in events) == 1


async def test_a_tool_that_raises_is_a_result_the_model_reads() -> None:
    @tool
    def broken() -> str:
        """Breaks."""
        raise ValueError("the disk is on fire")

    (told,) = await results_of(call("broken"), sources=[broken])
    assert "the disk is on fire" in told
    assert "Traceback" not in told


async def test_a_tool_that_hangs_is_given_up_after_its_time_sync_or_not() -> None:
    @tool(timeout=0.05)
    async def hangs() -> str:
        """Hangs."""
        await asyncio.Event().wait()
        return ""

    @tool(timeout=0.05)
    def sleeps() -> str:
        """Sleeps in a thread."""
        time.sleep(0.5)
        return ""

    assert PRESETS["default"].limits.tool_seconds == 30
    told = await results_of(calls(("hangs", {}), ("sleeps", {})), sources=[hangs, sleeps])
    assert all("0.05 s" in text for text in told)


async def test_50_megabytes_are_cut_and_invalid_text_is_repaired() -> None:
    @tool
    def floods() -> str:
        """Floods."""
        return "x" * 50_000_000

    @tool
    def mangles() -> bytes:
        """Returns bytes that are no text."""
        return b"caf\xe9 \xff\xfe"

    flood, mangled = await results_of(calls(("floods", {}), ("mangles", {})), sources=[floods, mangles])
    assert len(flood) <= PRESETS["default"].limits.result_bytes
    assert "50000000" in flood
    assert mangled.encode("utf-8")
    assert "caf" in mangled


async def test_effects_count_only_from_the_engines_own_meta_tools() -> None:
    @tool
    def sly() -> ToolResult:
        """Tries to end the run."""
        return ToolResult(content="nothing to see", effect=Finish(text="pwned"))

    assert await results_of(call("sly"), sources=[sly]) == ["nothing to see"]


async def test_two_calls_with_one_id_get_two_answers() -> None:
    provider = ScriptedProvider(
        [calls(("freeze", {"client_id": 1}), ("freeze", {"client_id": 2}), ids=("same", "same")), say("done")]
    )
    await Runtime(provider=provider, sources=[freeze]).run("go")
    messages = provider.requests[1].messages
    ids = [one.id for one in messages[-3].tool_calls]
    assert len(set(ids)) == 2
    assert [message.tool_call_id for message in messages[-2:]] == ids


async def test_an_intent_is_written_before_a_tool_runs_that_is_not_safe_to_repeat() -> None:
    order: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        order.append("ran")
        return "paid"

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    class Sink:
        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, CallDecided | CallIntended | CallFinished):
                order.append(f"{type(event).__name__} {event.call.name}")

    await results_of(call("pay"), call("look"), sources=[pay, look], trail=Sink())
    assert order == [
        "CallDecided pay",
        "CallIntended pay",
        "ran",
        "CallFinished pay",
        "CallDecided look",
        "CallFinished look",
    ]


async def test_nothing_runs_when_the_trail_cannot_be_written() -> None:
    ran: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    class Broken:
        async def emit(self, event: RunEvent) -> None:
            if isinstance(event, CallIntended):
                raise AuditError("the disk is full")

    runtime = Runtime(provider=ScriptedProvider([call("pay")]), sources=[pay], trail=Broken())
    with pytest.raises(AuditError, match="full"):
        await runtime.run("go")
    assert not ran


async def test_a_broken_sink_of_telemetry_does_not_take_the_answer_away() -> None:
    class Broken:
        async def emit(self, event: RunEvent) -> None:
            raise RuntimeError("no metrics today")

    runtime = Runtime(provider=ScriptedProvider([say("hello")]), sources=[freeze], sinks=[Broken()])
    assert (await runtime.run("go")).text == "hello"


class Asking:
    """A policy that asks before `freeze`."""

    version = "asking"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        if request.tool.name == "freeze":
            return Decision(verdict="ask", reason="money is involved", rule="ask-freeze")
        return Decision(verdict="deny", reason="not today", rule="deny-rest")


async def test_a_denied_call_does_not_run_and_says_why() -> None:
    @tool
    def drop() -> str:
        """Drop everything."""
        raise AssertionError("must not run")

    assert await results_of(call("drop"), sources=[drop], policy=Asking()) == ["Not allowed: not today."]


@pytest.mark.parametrize(("approved", "said"), [(True, "client 3 frozen for 7 days"), (False, "did not approve")])
async def test_a_run_waits_for_a_person_in_storage_and_is_resumed_in_another_process(
    tmp_path: Any, approved: bool, said: str
) -> None:
    url = database_url(tmp_path / "runs.sqlite")
    recorder = Recorder()
    async with Database(url) as database:
        first = Runtime(
            provider=ScriptedProvider([call("freeze", {"client_id": 3}, call_id="c1")]),
            sources=[freeze],
            policy=Asking(),
            documents=database.store,
            sinks=[recorder],
        )
        paused = await first.run("freeze client 3")
        await first.close()
    assert paused.status == "pending"
    assert isinstance(recorder.events[-1], RunPaused)
    async with Database(url) as database:
        provider = ScriptedProvider([say("done")])
        second = Runtime(provider=provider, sources=[freeze], policy=Asking(), documents=database.store)
        with pytest.raises(RequestError, match="c1"):
            await second.resume(paused.run_id)
        result = await second.resume(paused.run_id, approvals={"c1": approved})
        assert result.text == "done"
        assert said in provider.requests[0].messages[-1].content
        await second.close()
        with pytest.raises(RunNotFoundError):
            await second.resume(paused.run_id, approvals={"c1": True})


async def test_a_callers_own_tool_ends_the_run_and_its_result_carries_it_on() -> None:
    own = Tool(name="open_door", description="Open the door.", source="client")
    provider = ScriptedProvider([calls(("open_door", {}), ("freeze", {"client_id": 3})), say("open and frozen")])
    runtime = Runtime(provider=provider, sources=[freeze])
    waiting = await runtime.run("open the door and freeze", client_tools=(own,))
    assert (waiting.status, [c.name for c in waiting.client_calls]) == ("client_calls", ["open_door"])
    done = await runtime.resume(waiting.run_id, results={waiting.client_calls[0].id: "it is open"})
    assert done.text == "open and frozen"
    texts = [message.content for message in provider.requests[1].messages if message.role == "tool"]
    assert texts == ["it is open", "client 3 frozen for 7 days"]


async def test_a_cancelled_stream_cancels_the_tool_that_runs() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Slow."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    runtime = Runtime(provider=ScriptedProvider([call("slow")]), sources=[slow])
    stream = runtime.stream("go")

    async def consume() -> None:
        async for _ in stream:
            pass

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 2)


async def test_the_providers_own_cap_holds_over_the_presets() -> None:
    made = []
    for number in range(60):

        def run() -> str:
            return "ran"

        run.__name__ = f"thing_{number}"
        run.__doc__ = "Thing."
        made.append(tool(run))
    small = (replace(CAPABILITIES[0], pattern="tiny-*", tool_cap=20), *CAPABILITIES)
    provider = ScriptedProvider([say("ok")])
    runtime = Runtime(
        provider=provider,
        sources=[FunctionSource("things", made)],
        model="tiny-1",
        capabilities=small,
        preset="multibot",
    )
    await runtime.run("thing")
    assert len(provider.requests[0].tools) == 20
