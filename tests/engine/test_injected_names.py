"""Arguments that begin with `_` are the application's: what a model sends under such a name is dropped, and the call runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.databases import database_url
from toolcaddie.audit.trail import Trail
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.meta_names import EXECUTE_TOOL, LIST_TOOLS, RESPOND
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.telemetry import StructlogSink
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


@tool
def whoami(text: str, _chatId: str = "nobody") -> str:
    """Say who asks."""
    return f"{text} {_chatId}"


class Elsewhere:
    """A source whose tool declares an argument that begins with `_`, as definitions of others do."""

    name = "elsewhere"
    revision = 0
    got: Mapping[str, Any] = {}

    def tools(self) -> list[Tool]:
        properties = {"_id": {"type": "string"}, "note": {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": ["_id"]}
        return [Tool(name="get_document", input_schema=schema, source=self.name)]

    def categories(self) -> list[Any]:
        return []

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self.got = arguments
        return ToolResult(content="found")


def told(provider: ScriptedProvider) -> list[str]:
    return [message.text for message in provider.requests[-1].messages if message.role == "tool"]


async def test_a_name_the_model_made_up_is_dropped_and_the_call_runs() -> None:
    provider = ScriptedProvider([call("whoami", {"text": "hi", "_chatId": "someone else's", "_x": 1}), say("done")])
    result = await Runtime(provider=provider, sources=[whoami]).run("go")
    assert (told(provider), result.tool_calls) == (["hi nobody"], ("whoami",))


@pytest.mark.proves("R002-11")
async def test_an_injected_value_wins_over_the_models_through_every_way_of_calling() -> None:
    forged = {"text": "hi", "_chatId": "forged"}
    provider = ScriptedProvider(
        [
            call("whoami", forged),
            call(EXECUTE_TOOL, {"tool_name": "whoami", "arguments": forged, "_chatId": "forged"}),
            call(LIST_TOOLS, {"_chatId": "forged"}),
            call(RESPOND, {"message": "done", "_note": "x"}),
        ]
    )
    runtime = Runtime(provider=provider, sources=[whoami], preset="compact")
    result = await runtime.run("go", injected={"_chatId": "chat-7"})
    plain, wrapped, listed = told(provider)
    assert (plain, wrapped) == ("hi chat-7", "hi chat-7")
    assert '"total":1' in listed
    assert result.text == "done"
    assert (await runtime.call("whoami", forged, injected={"_chatId": "chat-7"})).content == "hi chat-7"


async def test_log_and_trail_name_what_was_dropped(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        provider = ScriptedProvider([call("whoami", {"text": "hi", "_chatId": "x"}), say("done")])
        runtime = Runtime(provider=provider, sources=[whoami], trail=Trail(database.events), sinks=[StructlogSink()])
        with capture_logs() as lines:
            await runtime.run("go", run_id="run_dropped")
        await database.events.flush()
        events = await database.events.events("run_dropped")
    (decided,) = (event.data for event in events if event.kind == "call_decided")
    assert decided["dropped"] == ["_chatId"]
    assert any(line.get("dropped") == ["_chatId"] for line in lines)


async def test_a_tool_that_declares_such_an_argument_gets_it_from_the_model_unless_it_is_injected() -> None:
    source = Elsewhere()
    steps = [call("get_document", {"_id": "d1", "_chatId": "x"}), say("done")]
    await Runtime(provider=ScriptedProvider(steps), sources=[source], policy=AllowAll()).run("go")
    assert source.got == {"_id": "d1"}
    await Runtime(provider=ScriptedProvider(steps), sources=[source], policy=AllowAll()).run(
        "go", injected={"_id": "mine"}
    )
    assert source.got == {"_id": "mine"}


async def test_other_unknown_arguments_are_refused_as_before() -> None:
    provider = ScriptedProvider([call("whoami", {"text": "hi", "chatId": "x"}), say("done")])
    await Runtime(provider=provider, sources=[whoami]).run("go")
    assert "chatId" in told(provider)[0]
    assert "nobody" not in told(provider)[0]
