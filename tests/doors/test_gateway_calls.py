"""Fields of a tool call that nobody here knows reach the client and go back to the model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.testing import ScriptedUpstream, garbage, say

pytestmark = pytest.mark.anyio

DRAW = {"type": "function", "function": {"name": "draw", "parameters": {"type": "object", "properties": {}}}}
ASK = {"model": "gpt-test", "messages": [{"role": "user", "content": "draw a cat"}], "tools": [DRAW]}
CALL = {
    "id": "call_of_the_upstream_1",
    "type": "function",
    "extra_content": {"signature": "abc"},
    "function": {"name": "draw", "arguments": '{"what": "cat"}', "strict": True, "parsed_arguments": None},
}


def whole(call: dict[str, Any]) -> Any:
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return garbage(msgspec.json.encode({"id": "c", "object": "chat.completion", "choices": [choice]}))


def streamed(*pieces: dict[str, Any]) -> Any:
    deltas: list[dict[str, Any]] = [{"delta": {"tool_calls": [piece]}, "finish_reason": None} for piece in pieces]
    deltas.append({"delta": {}, "finish_reason": "tool_calls"})
    events = (msgspec.json.encode({"id": "c", "choices": [{"index": 0, **delta}]}) for delta in deltas)
    return garbage(
        b"".join(b"data: %b\n\n" % event for event in (*events, b"[DONE]")), content_type="text/event-stream"
    )


async def test_unknown_fields_of_a_call_stand_beside_its_name_and_arguments(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([whole(CALL)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/chat/completions", json=ASK) as answer,
    ):
        assert (await answer.json())["choices"][0]["message"]["tool_calls"] == [CALL]


async def test_unknown_fields_of_a_streamed_call_are_in_the_chunks_they_came_in(tmp_path: Path) -> None:
    pieces = [
        {"index": 0, **CALL, "function": {**CALL["function"], "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"what": "cat"}', "checked": 1}, "extra_content": {"more": 2}},
    ]
    async with (
        ScriptedUpstream([streamed(*pieces)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/chat/completions", json={**ASK, "stream": True}) as answer,
    ):
        lines = (await answer.text()).splitlines()
    chunks = [msgspec.json.decode(line[6:]) for line in lines if line.startswith("data: {")]
    assert [piece for chunk in chunks for piece in chunk["choices"][0]["delta"].get("tool_calls", ())] == pieces


async def test_unknown_fields_inside_a_function_go_back_to_the_model_with_the_conversation(tmp_path: Path) -> None:
    history = [
        *ASK["messages"],
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": CALL["id"], "content": "drawn"},
    ]
    async with (
        ScriptedUpstream([say("Here it is.")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/chat/completions", json={**ASK, "messages": history}) as answer,
    ):
        assert answer.status == 200
    assert upstream.bodies[0]["messages"][1]["tool_calls"] == [CALL]
