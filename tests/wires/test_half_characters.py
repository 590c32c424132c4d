"""Half of a surrogate pair in a text: every wire writes it as the replacement character, because no JSON body can hold it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie.core.content import Text
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.wire import AnswerHead, DoorRequest, Problem
from toolcaddie.ports.wires import ClientWire, Wire
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.chat import CHAT
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.responses import ResponsesWire
from toolcaddie.testing.script import Reply
from toolcaddie.testing.wire import Wire as ServerWire
from toolcaddie.wires import chat, gemini, messages, responses
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.gemini.replies import write_reply as write_gemini_reply

HALF, MENDED = "a\ud800", "a\ufffd"
HEAD = AnswerHead(id="run_1", created=1, model="m")
DOORS: dict[str, Wire] = {"chat": chat.WIRE, "responses": responses.WIRE, "messages": messages.WIRE}
CLIENTS: dict[str, ClientWire] = {**DOORS, "gemini": gemini.WIRE}
SERVERS: dict[str, ServerWire] = {
    "chat": CHAT,
    "responses": ResponsesWire(),
    "messages": AnthropicWire(),
    "gemini": GeminiWire(),
}
CALL = ToolCall(id="call_1", name="freeze", arguments=HALF)
REPLY = ModelReply(
    message=Message(role="assistant", content=HALF, tool_calls=(CALL,)), finish_reason="tool_calls", model="m"
)

doors = pytest.mark.parametrize("wire", DOORS.values(), ids=DOORS)
clients = pytest.mark.parametrize("name", CLIENTS)


def texts(value: Any) -> list[str]:
    """Returns every text within a JSON value."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def read_whole(name: str, body: bytes) -> ModelReply:
    return CLIENTS[name].read_reply(body, who="server", author="server:m")


def read_events(name: str, events: list[bytes]) -> ModelReply:
    reader = CLIENTS[name].read_stream(ModelRequest(model="m", messages=()), who="server", author="server:m")
    for data in events:
        reader.add(data)
    reader.end()
    return reader.reply()


def data_of(stream: bytes) -> list[bytes]:
    return [block.partition(b"data: ")[2] for block in stream.split(b"\n\n") if block]


@clients
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("call_id", ["call_1", "\ud800" * 70], ids=["plain id", "broken id"])
def test_a_request_with_half_a_surrogate_pair_is_written(name: str, stream: bool, call_id: str) -> None:
    call = ToolCall(id=call_id, name="freeze", arguments=HALF)
    request = ModelRequest(
        model="m",
        messages=(
            Message(role="user", content=(Text(text=HALF),)),
            Message(role="assistant", tool_calls=(call,), author="another:m"),
            Message(role="tool", tool_call_id=call_id, content=HALF),
        ),
        params={"metadata": {"note\ud800": HALF}},
    )
    body = CLIENTS[name].write_request(request, model="m", author="server:m", stream=stream).body
    assert sum(MENDED in text for text in texts(msgspec.json.decode(body))) >= 3


@doors
def test_a_whole_answer_with_half_a_surrogate_pair_is_written(wire: Wire) -> None:
    reply = read_whole(wire.name, wire.write_reply(REPLY, HEAD))
    assert reply.message.text == MENDED
    assert MENDED in reply.message.tool_calls[0].arguments


def test_a_whole_answer_of_gemini_with_half_a_surrogate_pair_is_written() -> None:
    reply = read_whole("gemini", write_gemini_reply(REPLY, HEAD))
    assert reply.message.text == MENDED
    assert MENDED in reply.message.tool_calls[0].arguments


@doors
def test_a_streamed_answer_with_half_a_surrogate_pair_is_written(wire: Wire) -> None:
    writer = wire.write_stream(DoorRequest(model="m", messages=(), stream=True), HEAD)
    out = writer.begin() + writer.add(ModelDelta(text=HALF))
    out += writer.add(ModelDelta(calls=(CallDelta(index=0, id="call_1", name="freeze"),)))
    out += writer.add(ModelDelta(calls=(CallDelta(index=0, arguments=HALF),)))
    reply = read_events(wire.name, data_of(out + writer.end(REPLY)))
    assert reply.message.text == MENDED
    assert MENDED in reply.message.tool_calls[0].arguments


@doors
def test_an_error_with_half_a_surrogate_pair_is_written(wire: Wire) -> None:
    problem = Problem(status=422, message=HALF, kind="invalid_request_error", headers={"x-should-retry": "false"})
    assert MENDED in texts(msgspec.json.decode(wire.write_error(problem)))
    assert MENDED in wire.write_error_event(problem).decode()


@clients
def test_a_scripted_server_writes_half_a_surrogate_pair_whole_and_streamed(name: str) -> None:
    server, script = SERVERS[name], Reply(text=HALF)
    whole = ENCODER.encode(server.whole(script, answer_id="1", model="m"))
    assert read_whole(name, whole).message.text == MENDED
    events = server.events(script, answer_id="1", model="m", body={"stream": True})
    assert read_events(name, events).message.text == MENDED
