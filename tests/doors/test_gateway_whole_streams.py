"""A whole answer of a Responses upstream to a request for a stream: the client receives it as a stream, unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from tests.doors.serving import gateway
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import ResponsesWire, ScriptedUpstream
from toolcaddie.testing.upstream import Exchange

pytestmark = pytest.mark.anyio

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}
CALL = {"type": "function_call", "name": "find", "arguments": '{"a":1}'}
CUSTOM = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "x = 1"}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "content": "odd"}


class Whole:
    """Answers every request with a whole response."""

    def __init__(self, **fields: Any) -> None:
        self.body = {"id": "resp_theirs", "object": "response", "model": "m", "created_at": 1.5, **fields}

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        return await exchange.send_json(200, self.body)


async def events_of(tmp_path: Path, step: Whole) -> list[Any]:
    async with ScriptedUpstream([step], wire=ResponsesWire()) as upstream:
        provider = OpenAIResponses(upstream.base_url)
        async with gateway(tmp_path, provider, own_upstream_key=False) as served:
            client = served.client.with_options(api_key="test-key")
            stream = await client.responses.create(model="m", input="hi", stream=True)
            return [event async for event in stream]


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"status": "completed", "error": {"code": "bio_policy", "message": "x"}}, "response.completed"),
        ({"error": {"code": "bio_policy", "message": "x"}}, "response.completed"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "response.incomplete"),
        ({"status": "failed", "error": {"code": "server_error", "message": "x"}}, "response.failed"),
        ({"status": "cancelled"}, "response.failed"),
    ],
    ids=["error-inside", "no-status", "incomplete", "failed", "cancelled"],
)
async def test_a_whole_response_becomes_events_with_itself_at_the_end(
    tmp_path: Path, fields: dict[str, Any], end: str
) -> None:
    step = Whole(output=[MESSAGE, CALL, CUSTOM, SEARCH], future=True, **fields)
    events = await events_of(tmp_path, step)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello."
    done = [event.item.to_dict() for event in events if event.type == "response.output_item.done"]
    assert [item["type"] for item in done] == ["message", "function_call", "custom_tool_call", "web_search_call"]
    assert events[-1].type == end
    assert events[-1].response.to_dict() == step.body


@pytest.mark.parametrize(
    "output",
    [None, "text", ["item"], [{"no": "type"}], [{"type": "reasoning", "summary": ["a"]}], [{**MESSAGE, "content": 1}]],
    ids=["none", "text", "strings", "typeless", "summary", "content"],
)
async def test_a_whole_answer_of_another_shape_is_an_error_of_the_upstream(tmp_path: Path, output: Any) -> None:
    with pytest.raises(openai.InternalServerError, match="unknown shape") as refused:
        await events_of(tmp_path, Whole(output=output))
    assert refused.value.status_code == 502
