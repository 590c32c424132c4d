"""The doors of the gateway besides chat completions behave as that door does, in the form of their own API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.doors.serving import gateway
from toolcaddie import FunctionSource, tool
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import ResponsesWire, ScriptedUpstream, call, refuse, say

pytestmark = pytest.mark.anyio


def flat(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"member": {"type": "string"}}, "required": ["member"]}
    return {"type": "function", "name": name, "description": f"{name.replace('_', ' ')}", "parameters": schema}


async def test_a_client_of_another_api_calls_its_tools_through_a_model_behind_a_third(tmp_path: Path) -> None:
    script = [call("freeze_membership", {"member": "John"}), say("Frozen.")]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url) as served:
        tools: Any = [flat("freeze_membership"), flat("send_invoice")]
        first = await served.client.responses.create(model="gpt-test", input="freeze John", tools=tools)
        (item,) = first.output
        assert (item.type, item.name, item.arguments) == ("function_call", "freeze_membership", '{"member":"John"}')
        answered: Any = [
            {"role": "user", "content": [{"type": "input_text", "text": "freeze John"}]},
            item.model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": item.call_id, "output": "done"},
        ]
        second = await served.client.responses.create(
            model="gpt-test", input=answered, tools=tools, instructions="Be brief.", max_output_tokens=50
        )
    assert second.output_text == "Frozen."
    assert not upstream.refusals
    sent = upstream.bodies[1]
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent["messages"][3] == {"role": "tool", "content": "done", "tool_call_id": item.call_id}
    assert sent["max_completion_tokens"] == 50


async def test_a_stream_of_another_api_has_its_own_events_in_order(tmp_path: Path) -> None:
    script = [call("freeze_membership", {"member": "John"}, text="One moment.")]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url) as served:
        stream = await served.client.responses.create(
            model="gpt-test",
            input="freeze John",
            tools=[flat("freeze_membership")],
            stream=True,  # type: ignore[arg-type]
        )
        events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "One moment."
    (last,) = [event.response for event in events if event.type == "response.completed"]
    assert [item.type for item in last.output] == ["message", "function_call"]
    assert last.output[1].arguments == '{"member":"John"}'  # type: ignore[union-attr]


async def test_our_own_tools_run_behind_every_door(tmp_path: Path) -> None:
    @tool
    def freeze_membership(member: str) -> str:
        """Freeze a membership."""
        return f"{member} is frozen"

    script = [call("freeze_membership", {"member": "John"}), say("Frozen.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[FunctionSource("gym", [freeze_membership])]) as served,
    ):
        answer = await served.client.responses.create(model="gpt-test", input="freeze John")
    assert answer.output_text == "Frozen."
    assert upstream.bodies[1]["messages"][-1]["content"] == "John is frozen"


async def test_a_request_is_spliced_where_door_and_upstream_speak_one_wire(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("hi"), say("ho")], wire=ResponsesWire()) as upstream:
        provider = OpenAIResponses(upstream.base_url, "test-key")
        async with gateway(tmp_path, provider) as served, httpx.AsyncClient() as http:
            body = b'{ "model":"gpt-test",  "input":"hi", "truncation":"auto", "store":false }'
            answer = await http.post(
                f"{served.base_url}/v1/responses", content=body, headers={"content-type": "application/json"}
            )
            chat = await served.client.chat.completions.create(
                model="gpt-test", messages=[{"role": "user", "content": "hi"}]
            )
    assert (answer.status_code, answer.json()["truncation"]) == (200, "disabled")
    assert upstream.requests[0].raw == body
    assert chat.choices[0].message.content == "ho"  # the other wire is translated


async def test_an_error_has_the_shape_of_its_door_before_a_stream_and_in_it(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([refuse(400, "no such thing", code="odd")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        with pytest.raises(openai.BadRequestError, match="not found"):
            await served.client.responses.create(model="m", input="hi", previous_response_id="resp_1")
        with pytest.raises(openai.BadRequestError, match="no such thing"):
            await served.client.responses.create(model="m", input="hi", tools=[flat("find")])  # type: ignore[list-item]
