"""Rounds that run no tool count as no call, and end all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.databases import database_url
from tests.doors.serving import gateway
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Decision
from toolcaddie.core.errors import LimitExceededError
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, LIST_TOOLS, RESPOND, SEARCH_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


@tool(read_only=True)
def look(at: int = 0) -> str:
    """Look at something."""
    return f"saw {at}"


class Denies:
    version = "denies"

    def visible(self, catalog: Any, principal: Any) -> None:
        return None

    async def decide(self, *about: Any) -> Decision:
        return Decision(verdict="deny", reason="not today")


def round_of(request: Any) -> int:
    """Its number from 0; a run that would never end fails here."""
    number = sum(message.role == "assistant" for message in request.messages)
    assert number < 600
    return number


def listing(request: Any) -> Any:
    return call(LIST_TOOLS, {"offset": round_of(request)})


def compact(**limits: Any) -> Any:
    return replace(PRESETS["compact"], limits=replace(PRESETS["compact"].limits, **limits))


@pytest.mark.parametrize(
    "idle",
    [
        lambda number: call(LIST_TOOLS, {}),
        lambda number: call(SEARCH_TOOLS, {"query": f"number {number}"}),
        lambda number: call(GET_TOOL_SCHEMA, {"tool_name": "look"}),
        lambda number: call("no_such_tool", {"at": number}),
        lambda number: call(EXECUTE_TOOL, {"tool_name": f"nothing_{number}"}),
        lambda number: call(EXECUTE_TOOL, {"tool_name": "look", "arguments": {"at": "not a number"}}),
        lambda number: call("look", "{not json"),
        lambda number: calls((LIST_TOOLS, {}), ("no_such_tool", {})),
    ],
    ids=["list", "search", "schema", "unknown", "unknown inside", "wrong inside", "no JSON", "both"],
)
async def test_a_model_that_never_runs_a_tool_ends_after_25_rounds(idle: Any) -> None:
    provider = ScriptedProvider(lambda request: idle(round_of(request)))
    runtime = Runtime(provider=provider, sources=[look], preset="compact")
    with pytest.raises(LimitExceededError, match=r"25 rounds in a row.*limits\.idle_rounds_in_row is 25") as failure:
        await runtime.run("go")
    assert failure.value.limit == "idle_rounds_in_row"
    assert len(provider.requests) == 25


async def test_what_policy_denies_counts_as_well() -> None:
    provider = ScriptedProvider(lambda request: call("look", {"at": round_of(request)}))
    with pytest.raises(LimitExceededError) as failure:
        await Runtime(provider=provider, sources=[look], preset="compact", policy=Denies()).run("go")
    assert (failure.value.limit, len(provider.requests)) == ("idle_rounds_in_row", 25)


async def test_a_tool_that_runs_resets_the_row_and_75_idle_rounds_in_all_end_the_run() -> None:
    def script(request: Any) -> Any:
        number = round_of(request)
        return call("look", {"at": number}) if number % 20 == 19 else call(LIST_TOOLS, {})

    provider = ScriptedProvider(script)
    with pytest.raises(LimitExceededError, match="75 rounds") as failure:
        await Runtime(provider=provider, sources=[look], preset="compact").run("go")
    assert (failure.value.limit, len(provider.requests)) == ("idle_rounds", 75 + 3)


async def test_meta_calls_are_not_among_the_75_calls() -> None:
    def script(request: Any) -> Any:
        number = round_of(request)
        if number == 100:
            return call(RESPOND, {"message": "done"})
        return call(LIST_TOOLS, {}) if number % 4 == 0 else call("look", {"at": number})

    result = await Runtime(provider=ScriptedProvider(script), sources=[look], preset="compact").run("go")
    assert (result.text, result.state.calls, result.state.idle_rounds) == ("done", 75, 25)


async def test_a_round_with_a_real_call_is_not_idle() -> None:
    def script(request: Any) -> Any:
        number = round_of(request)
        return say("done") if number == 60 else calls((LIST_TOOLS, {}), ("look", {"at": number}), ("nothing", {}))

    result = await Runtime(provider=ScriptedProvider(script), sources=[look], preset="compact").run("go")
    assert (result.text, result.state.idle_rounds) == ("done", 0)


async def test_a_callers_own_tool_is_no_idle_round_and_the_count_outlives_a_pause() -> None:
    mine = Tool(name="open_door", description="Open the door.", source="client")
    runtime = Runtime(
        provider=ScriptedProvider(
            [call(LIST_TOOLS, {}), call("open_door"), call(LIST_TOOLS, {}), call(LIST_TOOLS, {})]
        ),
        sources=[look],
        preset=compact(idle_rounds=3),
    )
    waiting = await runtime.run("go", client_tools=(mine,))
    assert (waiting.state.idle_rounds, waiting.state.idle_in_row) == (1, 0)
    with pytest.raises(LimitExceededError, match=r"limits\.idle_rounds is 3"):
        await runtime.resume(waiting.run_id, results={waiting.client_calls[0].id: "open"})


async def test_the_limits_are_settings_and_may_be_off() -> None:
    provider = ScriptedProvider(listing)
    with pytest.raises(LimitExceededError) as failure:
        await Runtime(provider=provider, sources=[look], preset=compact(idle_rounds_in_row=3)).run("go")
    assert (failure.value.limit, len(provider.requests)) == ("idle_rounds_in_row", 3)
    provider = ScriptedProvider(
        lambda request: call(RESPOND, {"message": "x"}) if round_of(request) == 90 else call(LIST_TOOLS, {})
    )
    off = compact(idle_rounds=None, idle_rounds_in_row=None)
    assert (await Runtime(provider=provider, sources=[look], preset=off).run("go")).state.idle_rounds == 90


async def test_the_clock_ends_a_run_whose_provider_never_suspends() -> None:
    """Nothing in such a run waits for anything, so that no timer of the event loop ever fires in it."""
    provider = ScriptedProvider([call(LIST_TOOLS, {})] * 3_000)
    quick = compact(seconds=0.05, idle_rounds=None, idle_rounds_in_row=None)
    with pytest.raises(LimitExceededError, match=r"longer than 0\.05 s") as failure:
        await Runtime(provider=provider, sources=[look], preset=quick).run("go")
    assert failure.value.limit == "seconds"


async def test_the_trail_says_which_limit_was_reached(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        provider = ScriptedProvider(listing)
        runtime = Runtime(provider=provider, sources=[look], preset="compact", trail=Trail(database.events))
        with pytest.raises(LimitExceededError):
            await runtime.run("go", run_id="run_idle")
        await database.events.flush()
        *_, reached, failed = await database.events.events("run_idle")
    assert (reached.kind, reached.data["limit"]) == ("limit_reached", "idle_rounds_in_row")
    assert (failed.kind, failed.data["kind"]) == ("run_failed", "LimitExceededError")


async def test_a_client_of_the_gateway_gets_an_error_that_asks_for_no_retry(tmp_path: Path) -> None:
    provider = ScriptedProvider(listing)
    async with gateway(tmp_path, provider, sources=[look], preset="compact") as door:
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await door.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}])
    assert refused.value.code == "idle_rounds_in_row_exceeded"
    assert refused.value.response.headers["x-should-retry"] == "false"
