"""OpenAI's two wires, both ways: what one side writes the other reads, and nothing is lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead, DoorRequest, Problem
from toolcaddie.ports.wires import Wire
from toolcaddie.wires import chat, responses

WIRES: dict[str, Wire] = {"chat": chat.ChatWire(), "responses": responses.ResponsesWire()}
HEAD = AnswerHead(id="run_1", created=1, model="m")
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
FREEZE = {"type": "function", "function": {"name": "freeze", "description": "Freeze it.", "parameters": SCHEMA}}

both = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
calls = st.lists(texts, max_size=3).map(
    lambda arguments: tuple(
        ToolCall(id=f"call_{place}", name="freeze", arguments=text) for place, text in enumerate(arguments)
    )
)
replies = st.builds(
    lambda text, calls, reason: ModelReply(
        message=Message(role="assistant", content=text, tool_calls=calls),
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        usage=Usage(input_tokens=7, output_tokens=3, cached_tokens=2, reasoning_tokens=1),
        model="m",
    ),
    texts,
    calls,
    st.sampled_from(["", "length", "content_filter"]),
)


def read(wire: Wire, body: bytes, bounds: Bounds = DEFAULT) -> DoorRequest:
    return wire.read_request(wire.open(body, bounds), bounds)


def essence(reply: ModelReply) -> tuple[Any, ...]:
    called = [(call.id, call.name, call.arguments) for call in reply.message.tool_calls]
    return reply.message.text, called, reply.finish_reason, reply.usage, reply.model


@both
@given(texts, texts, calls, st.booleans())
def test_a_written_request_is_read_back_the_same(
    wire: Wire, asked: str, result: str, made: tuple[ToolCall, ...], stream: bool
) -> None:
    messages = (
        Message(role="system", content="Be brief."),
        Message(role="user", content=asked),
        Message(role="assistant", content="I will.", tool_calls=made),
        *(Message(role="tool", tool_call_id=call.id, content=result) for call in made),
    )
    params = {"temperature": 0.5, "max_completion_tokens": 90, "reasoning_effort": "low"}
    asking = ModelRequest(model="m", messages=messages, tools=(FREEZE,), tool_choice="required", params=params)
    sent = wire.write_request(asking, model="m", author="somebody:m", stream=stream)
    body = msgspec.json.decode(sent.body)
    assert wire.complaint("", body) is None
    envelope = wire.open(sent.body, DEFAULT)
    request, (tool,) = wire.read_request(envelope, DEFAULT), wire.read_tools(envelope.tools, DEFAULT)
    assert [(each.role, each.text, each.tool_call_id) for each in request.messages] == [
        (each.role, each.text, each.tool_call_id) for each in messages
    ]
    read_calls = [(call.id, call.name, call.arguments) for each in request.messages for call in each.tool_calls]
    assert read_calls == [(call.id, call.name, call.arguments) for call in made]
    assert (request.model, request.stream, request.tool_choice) == ("m", stream, "required")
    assert {name: request.params[name] for name in params} == params
    assert (tool.name, tool.description, tool.input_schema) == ("freeze", "Freeze it.", SCHEMA)


@both
@given(replies)
def test_a_written_reply_is_read_back_the_same(wire: Wire, reply: ModelReply) -> None:
    read_back = wire.read_reply(wire.write_reply(reply, HEAD), who="server", author="server:m")
    assert essence(read_back) == essence(reply)


@both
@given(replies, st.integers(1, 4))
def test_a_streamed_reply_is_read_back_piece_by_piece(wire: Wire, reply: ModelReply, size: int) -> None:
    asked = DoorRequest(model="m", messages=(), stream=True, params={"stream_options": {"include_usage": True}})
    writer = wire.write_stream(asked, HEAD)
    reader = wire.read_stream(ModelRequest(model="m", messages=()), who="server", author="server:m")
    text = reply.message.text
    out = b"".join(writer.add(ModelDelta(text=text[at : at + size])) for at in range(0, len(text), size))
    for index, call in enumerate(reply.message.tool_calls[:1]):  # the others come with the end
        out += writer.add(ModelDelta(calls=(CallDelta(index=index, id=call.id, name=call.name),)))
        out += writer.add(ModelDelta(calls=(CallDelta(index=index, arguments=call.arguments),)))
    out += writer.end(reply)
    deltas = [reader.add(block.partition(b"data: ")[2]) for block in out.split(b"\n\n") if block]
    reader.end()
    assert essence(reader.reply()) == essence(reply)
    assert "".join(delta.text for delta in deltas if delta is not None) == text


@both
def test_an_error_has_openais_format_and_tells_in_a_stream_if_a_retry_may_help(wire: Wire) -> None:
    problem = Problem(status=422, message="no", kind="run_failed", code="odd", headers={"x-should-retry": "false"})
    error = msgspec.json.decode(wire.write_error(problem))["error"]
    assert error == {"message": "no", "type": "run_failed", "param": None, "code": "odd"}
    event = wire.write_error_event(problem)
    assert event.endswith(b"\n\n")
    assert b'"should_retry":false' in event


@pytest.mark.parametrize(
    ("fields", "words", "param"),
    [
        ({"model": ""}, "model parameter", "model"),
        ({"input": []}, "non-empty array", "input"),
        ({"input": 5}, "non-empty array", "input"),
        ({"input": ["hi"]}, "must be an object", "input[0]"),
        ({"input": [{"role": "pope", "content": "hi"}]}, "must be one of", "input[0].role"),
        ({"input": [{"role": "user", "content": 5}]}, "string or an array", "input[0].content"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "name the call", "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "must be a string", "input[0].name"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "not accepted here", "input[0].type"),
        ({"previous_response_id": "resp_1"}, "only the provider stores", "previous_response_id"),
        ({"stream": "yes"}, "true or false", "stream"),
        ({"instructions": 5}, "must be a string", "instructions"),
        ({"reasoning": "much"}, "must be an object", "reasoning"),
        ({"tool_choice": 5}, "string or an object", "tool_choice"),
    ],
)
def test_a_faulty_request_of_the_responses_api_is_refused_by_its_field(
    fields: dict[str, Any], words: str, param: str
) -> None:
    body = msgspec.json.encode({"model": "m", "input": "hi", **fields})
    with pytest.raises(RequestError, match=words) as caught:
        read(WIRES["responses"], body)
    assert caught.value.param == param


def test_reasoning_that_a_client_sends_back_goes_out_before_its_calls() -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    made = {"type": "function_call", "call_id": "c1", "name": "freeze", "arguments": "{}"}
    items = [
        {"role": "user", "content": "hi"},
        thought,
        made,
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]
    wire = WIRES["responses"]
    request = read(wire, msgspec.json.encode({"model": "m", "input": items}))
    asking = ModelRequest(model="m", messages=request.messages)
    body = msgspec.json.decode(wire.write_request(asking, model="m", author="openai-responses:m", stream=False).body)
    assert [item.get("type", "message") for item in body["input"]] == [
        "message", "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert body["input"][1]["encrypted_content"] == "gAAA"
