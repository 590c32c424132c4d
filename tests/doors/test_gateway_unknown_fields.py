"""Fields of an upstream's answer that the gateway does not know reach the client, where both speak the same wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.doors.serving import gateway
from toolcaddie import FunctionSource, tool
from toolcaddie.doors.gateway.app import MODEL_DOORS
from toolcaddie.ports import Provider
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import AnthropicWire, ResponsesWire, ScriptedUpstream, call, say
from toolcaddie.testing.chat import ChatWire
from toolcaddie.testing.script import Reply
from toolcaddie.wires import messages, responses

pytestmark = pytest.mark.anyio

DOORS = {**MODEL_DOORS, "/v1/responses": responses.WIRE, "/v1/messages": messages.WIRE}
NEW = {"service_tier": "priority", "field_of_tomorrow": {"deep": [1, None]}}
"""Top-level fields that no wire of ours reads."""
NEW_USAGE = {"tokens_of_tomorrow": 7}
SCHEMA = {"type": "object", "properties": {"member": {"type": "string"}}, "required": ["member"]}


class LaterChat(ChatWire):
    """A server newer than we are: it has fields that we do not know, in a stream with its last chunk."""

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        body = super().whole(reply, answer_id=answer_id, model=model)
        return {**body, **NEW, "usage": {**body["usage"], **NEW_USAGE}}

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        *chunks, usage, done = super().events(reply, answer_id=answer_id, model=model, body=body)
        last = msgspec.json.decode(usage)
        return [*chunks, msgspec.json.encode({**last, **NEW, "usage": {**last["usage"], **NEW_USAGE}}), done]


class LaterResponses(ResponsesWire):
    """A server newer than we are. It echoes the request too, as the real one does, with tools the client must not see."""

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        return _later_response(super().whole(reply, answer_id=answer_id, model=model))

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        *earlier, last = super().events(reply, answer_id=answer_id, model=model, body=body)
        event = msgspec.json.decode(last)
        return [*earlier, msgspec.json.encode({**event, "response": _later_response(event["response"])})]


def _later_response(response: Mapping[str, Any]) -> dict[str, Any]:
    details = {**response["usage"]["output_tokens_details"], **NEW_USAGE}
    return {
        **response,
        **NEW,
        "temperature": 0.5,
        "metadata": None,
        "instructions": "secret",
        "tools": [{"type": "function", "name": "secret"}],
        "usage": {**response["usage"], **NEW_USAGE, "output_tokens_details": details},
    }


class LaterMessages(AnthropicWire):
    """A server newer than we are, whose answers end at a stop sequence unless they call a tool."""

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        body = super().whole(reply, answer_id=answer_id, model=model)
        return {**body, **NEW, **_stop(reply), "usage": {**body["usage"], **NEW_USAGE}}

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        return [
            msgspec.json.encode(self._later_event(msgspec.json.decode(data), reply))
            for data in super().events(reply, answer_id=answer_id, model=model, body=body)
        ]

    def _later_event(self, event: dict[str, Any], reply: Reply) -> dict[str, Any]:
        match event["type"]:
            case "message_start":
                message = event["message"]
                usage = {**message["usage"], **NEW_USAGE}
                return {**event, "message": {**message, "service_tier": "priority", "usage": usage}}
            case "message_delta":
                new = {"field_of_tomorrow": NEW["field_of_tomorrow"], "service_tier": None}
                beside = {
                    "context_management": {"applied_edits": []},
                    "usage": {**event["usage"], "tokens_of_tomorrow": None},
                }
                return {**event, **beside, "delta": {**event["delta"], **new, **_stop(reply)}}
        return event


def _stop(reply: Reply) -> dict[str, Any]:
    return {} if reply.calls else {"stop_reason": "stop_sequence", "stop_sequence": "END"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    path: str
    wire: Callable[[], Any]
    provider: Callable[[str], Provider]
    request: Mapping[str, Any]


APIS = {
    "chat": Api(
        path="/v1/chat/completions",
        wire=LaterChat,
        provider=lambda url: OpenAIChat(url, "test-key"),
        request={
            "messages": [{"role": "user", "content": "freeze John"}],
            "tools": [{"type": "function", "function": {"name": "freeze", "parameters": SCHEMA}}],
        },
    ),
    "responses": Api(
        path="/v1/responses",
        wire=LaterResponses,
        provider=lambda url: OpenAIResponses(url, "test-key"),
        request={
            "input": "freeze John",
            "tools": [{"type": "function", "name": "freeze", "parameters": SCHEMA}],
        },
    ),
    "messages": Api(
        path="/v1/messages",
        wire=LaterMessages,
        provider=lambda url: Anthropic(url, "test-key"),
        request={
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "freeze John"}],
            "tools": [{"name": "freeze", "input_schema": SCHEMA}],
        },
    ),
}
every_api = pytest.mark.parametrize("name", APIS)


@tool
def list_members(member: str) -> str:
    """List the members."""
    return f"{member} is one"


async def answered(folder: Path, door: str, script: Any, *, upstream: str = "", stream: bool = False) -> Any:
    """The decoded answer at a door; of a stream the list of its events."""
    behind = APIS[upstream or door]
    async with (
        ScriptedUpstream(script, wire=behind.wire()) as server,
        gateway(
            folder, behind.provider(server.base_url), sources=[FunctionSource("gym", [list_members])], doors=DOORS
        ) as at,
        httpx.AsyncClient() as http,
    ):
        body = {"model": "m", **APIS[door].request, "stream": stream}
        if stream and door == "chat":
            body["stream_options"] = {"include_usage": True}
        answer = await http.post(f"{at.base_url}{APIS[door].path}", json=body)
        assert answer.status_code == 200, answer.text
        assert not server.refusals
    if not stream:
        return answer.json()
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return list(map(msgspec.json.decode, lines))


@every_api
async def test_unknown_fields_of_a_whole_answer_reach_the_client(name: str, tmp_path: Path) -> None:
    answer = await answered(tmp_path, name, [call("freeze", {"member": "John"})])
    assert {field: answer[field] for field in NEW} == NEW
    assert answer["usage"]["tokens_of_tomorrow"] == 7


async def test_unknown_fields_of_a_streamed_chat_answer_come_with_its_end(tmp_path: Path) -> None:
    events = await answered(tmp_path, "chat", [say("Frozen.")], stream=True)
    (finish,) = [event for event in events if event["choices"] and event["choices"][0]["finish_reason"]]
    assert {field: finish[field] for field in NEW} == NEW
    assert events[-1]["usage"]["tokens_of_tomorrow"] == 7
    assert len({event["id"] for event in events}) == 1


async def test_unknown_fields_of_a_streamed_response_come_with_its_end(tmp_path: Path) -> None:
    events = await answered(tmp_path, "responses", [say("Frozen.")], stream=True)
    first, last = events[0]["response"], events[-1]["response"]
    assert (last["id"], last["created_at"]) == (first["id"], first["created_at"])
    assert {field: last[field] for field in NEW} == NEW
    assert last["usage"]["tokens_of_tomorrow"] == 7
    assert last["usage"]["output_tokens_details"] == {"reasoning_tokens": 0, **NEW_USAGE}


async def test_unknown_fields_of_a_streamed_message_come_with_its_last_delta(tmp_path: Path) -> None:
    events = await answered(tmp_path, "messages", [say("Frozen.")], stream=True)
    (last,) = [event for event in events if event["type"] == "message_delta"]
    assert last["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END", **NEW}
    assert last["context_management"] == {"applied_edits": []}
    assert last["usage"]["tokens_of_tomorrow"] == 7
    assert last["usage"]["output_tokens"] == 10


async def test_the_stop_sequence_of_a_whole_message_reaches_the_client(tmp_path: Path) -> None:
    answer = await answered(tmp_path, "messages", [say("Frozen.")])
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "END")


async def test_settings_in_a_response_are_those_of_the_upstream_and_its_copy_of_our_request_stays_hidden(
    tmp_path: Path,
) -> None:
    answer = await answered(tmp_path, "responses", [say("Frozen.")])
    assert (answer["temperature"], answer["metadata"]) == (0.5, {})
    assert (answer["tools"], answer["instructions"]) == ([], None)


@every_api
@pytest.mark.parametrize("stream", [False, True])
async def test_usage_of_several_model_calls_is_their_sum_without_unknown_fields_of_the_last(
    name: str, stream: bool, tmp_path: Path
) -> None:
    script = [call("list_members", {"member": "John"}), say("John is one.")]
    answer = await answered(tmp_path, name, script, stream=stream)
    last = answer[-1] if stream else answer
    if name == "messages" and stream:
        last = answer[-2]
    usage = last.get("usage") or last["response"]["usage"]
    assert "tokens_of_tomorrow" not in usage
    assert usage.get("output_tokens", usage.get("completion_tokens")) == 20


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("door", "upstream"), [(door, behind) for door in APIS for behind in APIS if door != behind])
async def test_unknown_fields_do_not_cross_from_one_wire_to_another(
    door: str, upstream: str, stream: bool, tmp_path: Path
) -> None:
    answer = await answered(tmp_path, door, [say("Frozen.")], upstream=upstream, stream=stream)
    text = msgspec.json.encode(answer).decode()
    assert "tomorrow" not in text
    assert "priority" not in text
    assert stream or "Frozen." in text
