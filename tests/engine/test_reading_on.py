"""A result too long to be sent: its beginning goes to the model, and the model can read on."""

from __future__ import annotations

import re

import pytest

from toolcaddie import Message, RunRequest, Runtime, tool
from toolcaddie.core.control import Principal
from toolcaddie.core.message import ModelRequest
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

LINES = [f"line {number} of the log" for number in range(20_000)]


@tool(read_only=True)
def read_log() -> str:
    """Read the whole log."""
    return "\n".join(LINES)


def handle_in(request: ModelRequest) -> str:
    found = re.search(r"handle '(\w+)', offset (\d+)", request.messages[-1].text)
    assert found is not None
    return found[1]


def names(request: ModelRequest) -> list[str]:
    return [definition["function"]["name"] for definition in request.tools]


async def test_a_model_reads_on_in_a_cut_result_and_the_tool_for_it_joins_last() -> None:
    def read_on(request: ModelRequest) -> object:
        return call("read_result", {"handle": handle_in(request), "offset": 100_000, "limit": 50})

    provider = ScriptedProvider([call("read_log"), read_on, say("done"), say("thanks")])
    runtime = Runtime(provider=provider, sources=[read_log])
    result = await runtime.run(
        RunRequest(messages=(Message(role="user", content="what is in the log?"),), conversation="c")
    )
    before, after, read = (names(request) for request in provider.requests)
    assert "read_result" not in before
    assert after == read == [*before, "read_result"]
    assert "\n".join(LINES)[100_000:100_050] in provider.requests[2].messages[-1].text
    assert result.tool_calls == ("read_log",), "reading on takes no turn"
    asked = (*result.state.messages, Message(role="user", content="and the end of it?"))
    await runtime.run(RunRequest(messages=asked, conversation="c"))
    assert names(provider.requests[3]) == read, "it stays where it was in the turns that follow"


async def test_a_handle_works_only_for_the_caller_it_was_made_for() -> None:
    handles: list[str] = []

    def cut(request: ModelRequest) -> object:
        handles.append(handle_in(request))
        return say("long")

    def steal(request: ModelRequest) -> object:
        return call("read_result", {"handle": handles[0]})

    provider = ScriptedProvider([call("read_log"), cut, call("read_log"), steal, say("nothing")])
    runtime = Runtime(provider=provider, sources=[read_log])
    await runtime.run("what is in the log?", principal=Principal(id="anna"))
    await runtime.run("what is in the log?", principal=Principal(id="bert"))
    assert "There is no result" in provider.requests[-1].messages[-1].text
