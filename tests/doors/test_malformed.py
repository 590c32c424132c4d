"""Malformed bodies at every door that reads one: each gets a 400 or a 413 in the shape of its door, at once. Only what a provider
must judge reaches the upstream."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.clients.server import Stage, serving
from tests.doors.serving import gateway
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import AnthropicWire, GeminiWire, ResponsesWire, ScriptedUpstream, say

SETTINGS = """
[bounds]
body = 400_000
body_seconds = 0.3
chunks = 1_000
values = 100_000
"""
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "count_tokens": "/v1/messages/count_tokens",
    "input_tokens": "/v1/responses/input_tokens",
}
PROVIDERS: dict[str, tuple[Any, Any]] = {
    "responses": (ResponsesWire, lambda url: OpenAIResponses(url, "test-key")),
    "anthropic": (AnthropicWire, lambda url: Anthropic(url, "test-key")),
    "gemini": (GeminiWire, lambda url: Gemini(url, "test-key")),
}
doors = pytest.mark.parametrize("door", PATHS)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "toolcaddie.toml").write_text(SETTINGS)
    with serving(folder) as running:
        yield running


class Shapes:
    """How a door writes tools, calls and results."""

    def __init__(self, door: str) -> None:
        self.kind = {"count_tokens": "messages", "input_tokens": "responses"}.get(door, door)
        self.history = "input" if self.kind == "responses" else "messages"

    def body(self, *items: Any, tools: Sequence[str] = ("add",)) -> bytes:
        tokens = {"max_tokens": 100} if self.kind == "messages" else {}
        history = [{"role": "user", "content": "hi"}, *items]
        made = [self.tool(name) for name in tools]
        return json.dumps({"model": "gpt-test", self.history: history, "tools": made, **tokens}).encode()

    def tool(self, name: str) -> Any:
        schema = {"type": "object", "properties": {}}
        if self.kind == "messages":
            return {"name": name, "input_schema": schema}
        function = {"name": name, "parameters": schema}
        return {"type": "function", **({"function": function} if self.kind == "chat" else function)}

    def call(self, *ids: str) -> list[Any]:
        if self.kind == "chat":
            functions = [
                {"id": each, "type": "function", "function": {"name": "add", "arguments": "{}"}} for each in ids
            ]
            return [{"role": "assistant", "content": None, "tool_calls": functions}]
        if self.kind == "responses":
            return [{"type": "function_call", "call_id": each, "name": "add", "arguments": "{}"} for each in ids]
        blocks = [{"type": "tool_use", "id": each, "name": "add", "input": {}} for each in ids]
        return [{"role": "assistant", "content": blocks}]

    def result(self, call_id: str) -> Any:
        if self.kind == "chat":
            return {"role": "tool", "tool_call_id": call_id, "content": "7"}
        if self.kind == "responses":
            return {"type": "function_call_output", "call_id": call_id, "output": "7"}
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "7"}]}


def answer_on(connection: socket.socket, door: str) -> tuple[int, str]:
    """The status and the message, which must be in the shape of the door."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = json.loads(response.read())
    if response.status == 200:
        return 200, ""
    if PATHS[door].startswith("/v1/messages"):
        assert (body["type"], set(body["error"]) >= {"type", "message"}) == ("error", True)
    else:
        assert set(body["error"]) == {"message", "type", "param", "code"}
    return response.status, body["error"]["message"]


def head(door: str, *lines: str) -> bytes:
    whole = (f"POST {PATHS[door]} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", *lines)
    return "\r\n".join(whole).encode() + b"\r\n\r\n"


def sent(stage: Stage, door: str, raw: bytes) -> tuple[int, str]:
    host, port = stage.address.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=10)) as connection:
        connection.sendall(raw)
        return answer_on(connection, door)


def post(stage: Stage, door: str, body: bytes) -> tuple[int, str]:
    return sent(stage, door, head(door, f"content-length: {len(body)}") + body)


VALUES = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "minus infinity": b"-Infinity",
    "out of range": b"1e999",
    "lone surrogate": b'"\\ud800"',
    "wrong pair": b'"\\ud800\\u0041"',
    "invalid UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "control character": b'"\n"',
    "unknown escape": b'"\\x41"',
    "very deep list": b"[" * 20_000 + b"]" * 20_000,
    "very deep object": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "never closed": b"[" * 20_000,
    "many values": b"[" + b"0," * 180_000 + b"0]",
    "leading zero": b"01",
    "single quotes": b"'a'",
    "comment": b"1 /* one */",
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@doors
def test_a_value_that_json_does_not_have_is_refused_wherever_it_stands(stage: Stage, door: str, value: bytes) -> None:
    """As a field of its own, as content, inside a tool's schema, and as the name of the model."""
    body, asked = Shapes(door).body(), len(stage.upstream.requests)
    for malformed in (
        body[:-1] + b', "metadata": {"x": ' + value + b"}}",
        body.replace(b'"hi"', value),
        body.replace(b'"properties": {}', b'"properties": {"x": {"default": ' + value + b"}}"),
        body.replace(b'"gpt-test"', value),
    ):
        assert malformed != body
        status, message = post(stage, door, malformed)
        assert status == 400
        assert message
    assert len(stage.upstream.requests) == asked


NO_OBJECTS = {
    "empty": b"",
    "space": b" ",
    "null": b"null",
    "list": b"[]",
    "text": b'"text"',
    "number": b"7",
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "two": b"{}{}",
    "more": b"{}x",
    "cut": b"{",
    "packed": b"\x1f\x8b\x08",
}


@pytest.mark.parametrize("body", NO_OBJECTS.values(), ids=NO_OBJECTS)
@doors
def test_a_body_that_is_no_json_object_is_refused(stage: Stage, door: str, body: bytes) -> None:
    status, message = post(stage, door, body)
    assert status == 400
    assert message


@doors
def test_two_tools_of_one_name_are_refused_by_name(stage: Stage, door: str) -> None:
    status, message = post(stage, door, Shapes(door).body(tools=["add", "list", "add"]))
    assert status == 400
    assert "'add'" in message


@pytest.mark.parametrize(
    "history", ["orphan", "orphan beside", "two results", "before its call", "repeated ids", "missing"]
)
@pytest.mark.parametrize("door", ["chat", "responses", "messages"])
def test_results_that_fit_no_call_and_calls_that_lack_results_are_refused(
    stage: Stage, door: str, history: str
) -> None:
    shapes = Shapes(door)
    call, result = shapes.call("call_1"), shapes.result("call_1")
    items = {
        "orphan": [shapes.result("call_9")],
        "orphan beside": [*call, result, shapes.result("call_9")],
        "two results": [*call, result, result],
        "before its call": [result, *call],
        "repeated ids": [*shapes.call("call_1", "call_1"), result],
        "missing": [*call, {"role": "user", "content": "and now?"}],
    }[history]
    status, message = post(stage, door, shapes.body(*items))
    assert status == 400
    assert message


@pytest.mark.anyio
@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("door", ["chat", "responses", "messages"])
async def test_before_other_apis_a_result_without_its_call_is_refused_and_a_missing_result_is_filled_in(
    tmp_path: Path, door: str, kind: str
) -> None:
    wire, provider = PROVIDERS[kind]
    shapes = Shapes(door)
    orphan = shapes.body(*shapes.call("call_1"), shapes.result("call_1"), shapes.result("call_9"))
    missing = shapes.body(*shapes.call("call_1", "call_1"), shapes.result("call_1"))
    headers = {"content-type": "application/json"}
    async with (
        ScriptedUpstream([say("ok")], wire=wire()) as upstream,
        gateway(tmp_path, provider(upstream.base_url)) as served,
        aiohttp.ClientSession() as http,
    ):
        async with http.post(f"{served.base_url}{PATHS[door]}", data=orphan, headers=headers) as answer:
            assert answer.status == 400
            assert "call_9" in (await answer.json())["error"]["message"]
            assert upstream.bodies == []
        async with http.post(f"{served.base_url}{PATHS[door]}", data=missing, headers=headers) as answer:
            assert answer.status == 200
        assert upstream.refusals == []
        assert "There is no result" in json.dumps(upstream.bodies[0])


@doors
def test_a_body_without_end_is_refused_when_it_is_too_large(stage: Stage, door: str) -> None:
    pieces = (b"8000\r\n" + b" " * 32_768 + b"\r\n") * 13
    status, message = sent(stage, door, head(door, "transfer-encoding: chunked") + pieces)
    assert (status, "(setting bounds.body)" in message) == (413, True)


@doors
def test_a_body_of_endless_small_chunks_is_refused(stage: Stage, door: str) -> None:
    status, message = sent(stage, door, head(door, "transfer-encoding: chunked") + b"1\r\na\r\n" * 1_001)
    assert (status, "(setting bounds.chunks" in message) == (400, True)


@doors
def test_a_body_that_announces_too_much_is_refused_before_it_comes(stage: Stage, door: str) -> None:
    status, message = sent(stage, door, head(door, "content-length: 400001"))
    assert (status, "(setting bounds.body)" in message) == (413, True)


@doors
def test_a_body_that_stops_coming_is_not_waited_for(stage: Stage, door: str) -> None:
    status, message = sent(stage, door, head(door, "transfer-encoding: chunked") + b'5\r\n{"mod\r\n')
    assert (status, "(setting bounds.body_seconds)" in message) == (408, True)
