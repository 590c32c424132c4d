"""Anthropic's Messages, both ways: what one side writes the other reads, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.content import Block, Image, Other, Resource, Text
from toolcaddie.core.errors import ProviderRateLimitError, RequestError
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import CLIENT_SOURCE, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead, DoorRequest, Problem
from toolcaddie.ports.wires import Wire
from toolcaddie.util.replacing import replace
from toolcaddie.wires.chat import ChatWire
from toolcaddie.wires.messages import MessagesWire
from toolcaddie.wires.messages.strict import Terms, complaint_about

WIRE: Wire = MessagesWire(mid_system=True)
HEAD = AnswerHead(id="run_1", created=1, model="claude-sonnet-5")
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
FREEZE = {"type": "function", "function": {"name": "freeze", "description": "Freeze it.", "parameters": SCHEMA}}
LATER = {"type": "function", "function": {"name": "later", "description": "Later.", "parameters": SCHEMA}}
MARK = {"type": "ephemeral"}


def read(body: dict[str, Any] | bytes, bounds: Bounds = DEFAULT) -> DoorRequest:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return WIRE.read_request(WIRE.open(raw, bounds), bounds)


def asked(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-5", "max_tokens": 100, "messages": list(messages), **fields}


def written(request: DoorRequest | ModelRequest, tools: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    """The body by which a provider is asked what came in at the door."""
    asking = ModelRequest(
        model=request.model,
        messages=request.messages,
        tools=tools,
        tool_choice=request.tool_choice,
        params=request.params,
        **more,
    )
    body: dict[str, Any] = json.loads(
        WIRE.write_request(asking, model=request.model, author="anthropic:claude-sonnet-5", stream=False).body
    )
    return body


# ---------------------------------------------------------------- requests

CLIENTS = asked(
    {"role": "user", "content": [{"type": "text", "text": "freeze 7 and 8", "cache_control": MARK}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Seven first.", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d1"},
            {"type": "text", "text": "I will."},
            {"type": "tool_use", "id": "t1", "name": "freeze", "input": {"id": 7}, "cache_control": MARK},
            {"type": "tool_use", "id": "t2", "name": "freeze", "input": {"id": 8}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [
                    {"type": "text", "text": "frozen"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ],
                "cache_control": MARK,
            },
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "is_error": True,
                "content": [{"type": "text", "text": "no 8"}],
            },
            {"type": "text", "text": "and this file?"},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
                "citations": {"enabled": True},
            },
            {"type": "document", "source": {"type": "url", "url": "https://x.example/b.pdf"}},
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
            {"type": "search_result", "source": "https://x", "title": "x", "content": [{"type": "text", "text": "y"}]},
        ],
    },
    system=[{"type": "text", "text": "Be brief.", "cache_control": MARK}],
    temperature=1,
    top_k=5,
    stop_sequences=["END"],
    metadata={"user_id": "u1"},
    thinking={"type": "enabled", "budget_tokens": 1024},
    max_tokens=2048,
    output_config={"effort": "high"},
)


def test_a_clients_request_reaches_a_provider_of_the_same_api_unchanged() -> None:
    assert written(read(CLIENTS)) == {**CLIENTS, "metadata": {"user_id": "u1"}}


def test_a_clients_request_is_read_into_terms_that_every_provider_knows() -> None:
    request = read(CLIENTS)
    roles = [message.role for message in request.messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    system, _, answer, frozen, refused, last = request.messages
    assert (system.text, answer.text) == ("Be brief.", "I will.")
    assert answer.tool_calls == (
        ToolCall(id="t1", name="freeze", arguments='{"id":7}'),
        ToolCall(id="t2", name="freeze", arguments='{"id":8}'),
    )
    assert frozen.content == (
        Text(text="frozen", wire="messages"),
        Image(data="AAAA", mime_type="image/png", wire="messages"),
    )
    assert (refused.tool_call_id, refused.is_error, refused.text) == ("t2", True, "no 8")
    assert isinstance(last.content, tuple)
    assert [type(block) for block in last.content] == [Text, Resource, Resource, Other, Other]
    assert request.params == {
        "max_tokens": 2048,
        "temperature": 1,
        "top_k": 5,
        "stop": ["END"],
        "user": "u1",
        "reasoning_effort": "high",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


def test_thinking_without_a_signature_is_omitted() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "Yes."}]
    request = read(asked({"role": "user", "content": "hi"}, {"role": "assistant", "content": blocks}))
    assert written(request)["messages"][1]["content"] == blocks[1:]


@pytest.mark.parametrize(
    ("choice", "words", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any"}, "required", None),
        ({"type": "none"}, "none", None),
        ({"type": "tool", "name": "freeze"}, {"type": "function", "function": {"name": "freeze"}}, None),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", False),
    ],
)
def test_a_tool_choice_is_read_and_written_again(choice: dict[str, Any], words: Any, parallel: bool | None) -> None:
    request = read(asked({"role": "user", "content": "hi"}, tool_choice=choice))
    assert (request.tool_choice, request.params.get("parallel_tool_calls")) == (words, parallel)
    assert written(request, [FREEZE])["tool_choice"] == choice
    envelope = WIRE.open(msgspec.json.encode({"tool_choice": choice}), DEFAULT)
    assert WIRE.declines_tools(envelope) is (words == "none")


def test_a_schema_for_the_answer_becomes_the_parameter_that_other_wires_know() -> None:
    form = {"type": "json_schema", "schema": {"type": "object", "properties": {}, "additionalProperties": False}}
    request = read(asked({"role": "user", "content": "hi"}, output_config={"format": form, "task_budget": {"x": 1}}))
    assert request.params["response_format"]["json_schema"]["schema"] == form["schema"]
    assert written(request)["output_config"] == {"format": form, "task_budget": {"x": 1}}


def test_tools_are_read_as_functions_and_those_that_the_provider_runs_stay_unchanged() -> None:
    own = {"name": "freeze", "description": "Freeze it.", "input_schema": SCHEMA, "cache_control": MARK}
    search = {"type": "web_search_20260209", "name": "web_search", "max_uses": 2}
    freeze, web = WIRE.read_tools(msgspec.json.encode([own, search]), DEFAULT)
    assert (freeze.name, freeze.description, freeze.input_schema) == ("freeze", "Freeze it.", SCHEMA)
    assert (freeze.definition, freeze.source) == (FREEZE, CLIENT_SOURCE)
    assert (web.definition, web.core) == (search, True)
    body = written(read(asked({"role": "user", "content": "hi"})), [freeze.definition, web.definition])
    assert body["tools"] == [{name: own[name] for name in ("name", "description", "input_schema")}, search]


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ({}, "must be a list"),
        ([7], r"tools.0.name"),
        ([{"name": "a"}], "input_schema"),
        ([{"name": "a", "input_schema": SCHEMA}] * 2, "there is a tool 'a' already"),
        ([{"name": "a" * 3_000, "input_schema": SCHEMA}], "name has 3,000 characters"),
    ],
)
def test_a_faulty_tool_is_refused_by_its_field(tools: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        WIRE.read_tools(msgspec.json.encode(tools), Bounds(name=1_000))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "model"),
        (asked(), "at least one message"),
        (asked(7), r"messages.0.role"),
        (asked({"role": "tool", "content": "x"}), r"messages.0.role"),
        (asked({"role": "user", "content": 7}), r"messages.0.content: must be a string or a list"),
        (asked({"role": "user", "content": ["x"]}), r"messages.0.content: must be a string or a list"),
        (asked({"role": "user", "content": [{"type": "tool_result"}]}), r"content.0.tool_use_id"),
        (asked({"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}), "an id, a name and an object"),
        (asked({"role": "user", "content": "x"}, stream="yes"), "stream"),
        (asked({"role": "user", "content": "x"}, system=[7]), "system"),
        (asked({"role": "user", "content": "x"}, tool_choice="auto"), "tool_choice"),
        (asked({"role": "user", "content": "x"}, output_config=7), "output_config"),
    ],
)
def test_a_faulty_request_is_refused_by_its_field(body: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        read(body)


WORDS = st.text(min_size=1, max_size=8).filter(lambda text: not text.isspace())
BASE64 = st.sampled_from(["AAAA", "JVBERi0="])
BLOCKS = st.one_of(
    st.builds(Text, text=WORDS),
    st.builds(Image, data=BASE64, mime_type=st.sampled_from(["image/png", "image/jpeg"])),
    st.builds(Image, url=st.just("https://x.example/a.png")),
    st.builds(Image, file_id=st.just("file_1")),
    st.builds(Resource, data=BASE64, mime_type=st.just("application/pdf"), title=WORDS | st.just("")),
    st.builds(Resource, text=WORDS, mime_type=st.just("text/plain"), title=WORDS),
    st.builds(Resource, uri=st.just("https://x.example/a.pdf"), mime_type=st.just("application/pdf")),
    st.builds(Resource, file_id=st.just("file_2")),
)
CONTENTS = WORDS | st.lists(BLOCKS, min_size=1, max_size=3).map(tuple)
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(
    lambda value: msgspec.json.encode(value).decode()
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Turns of a user and an assistant, with all calls answered in order."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message(role="system", content=draw(WORDS)))
    for turn in range(draw(st.integers(1, 3))):
        messages.append(Message(role="user", content=draw(CONTENTS)))
        calls = tuple(
            ToolCall(id=f"t{turn}_{place}", name="freeze", arguments=draw(ARGUMENTS | st.just("no JSON")))
            for place in range(draw(st.integers(0, 2)))
        )
        messages.append(Message(role="assistant", content=draw(WORDS), tool_calls=calls))
        for call in calls:
            wrong = draw(st.booleans())
            messages.append(Message(role="tool", tool_call_id=call.id, content=draw(CONTENTS), is_error=wrong))
    return [*messages, Message(role="user", content=draw(CONTENTS))]


def plain(messages: Sequence[Message]) -> list[Message]:
    """What the words say, whatever form they came in: content as blocks without their origin."""
    return [replace(each, content=tuple(_blocks(each)), native=(), author="", extra=None) for each in messages]


def _blocks(message: Message) -> Iterator[Block]:
    content = (Text(text=message.content),) if isinstance(message.content, str) else message.content or ()
    for block in content:
        yield replace(block, wire="", extra=None)


@given(conversations())
def test_a_conversation_is_read_as_it_was_written(messages: list[Message]) -> None:
    body = written(ModelRequest(model="claude-sonnet-5", messages=messages), [FREEZE])
    assert complaint_about(body, Terms(mid_system=True)) is None
    again = read(body).messages
    assert plain(again) == plain(messages)
    assert written(read(body), [FREEZE]) == body


def test_tools_added_later_are_read_with_the_message_that_reveals_them() -> None:
    messages = (
        Message(role="user", content="hi"),
        Message(role="assistant", tool_calls=(ToolCall(id="t1", name="freeze"),)),
        Message(role="tool", tool_call_id="t1", content="", revealed=("later",)),
        Message(role="assistant", content="ok"),
        Message(role="user", content="more"),
        Message(role="system", content="", revealed=("other",)),
    )
    other = {**LATER, "function": {**LATER["function"], "name": "other"}}  # type: ignore[dict-item]
    request = ModelRequest(model="claude-sonnet-5", messages=messages)
    body = written(request, [FREEZE, LATER, other], deferred=frozenset({"later", "other"}))
    assert [message.revealed for message in read(body).messages] == [(), (), ("later",), (), (), ("other",)]


# ---------------------------------------------------------------- replies

NATIVE = (
    {"type": "thinking", "thinking": "hm", "signature": "s1"},
    {"type": "text", "text": "I will."},
    {"type": "tool_use", "id": "t1", "name": "freeze", "input": {"id": 7}},
)
USAGE = Usage(input_tokens=100, output_tokens=9, cached_tokens=40, written_tokens=10, reasoning_tokens=3)


def reread(reply: ModelReply) -> ModelReply:
    return WIRE.read_reply(WIRE.write_reply(reply, HEAD), who="anthropic", author="anthropic:m")


@given(
    st.none() | WORDS,
    st.lists(ARGUMENTS, max_size=2),
    st.sampled_from(["stop", "tool_calls", "length", "content_filter", "pause_turn"]),
)
def test_a_reply_is_read_as_it_was_written(text: str | None, arguments: list[str], finish: str) -> None:
    calls = tuple(ToolCall(id=f"t{place}", name="freeze", arguments=each) for place, each in enumerate(arguments))
    content = text if text or calls else ""
    reply = ModelReply(
        message=Message(role="assistant", content=content, tool_calls=calls),
        finish_reason=finish,
        usage=USAGE,
        model="m",
    )
    again = reread(reply)
    assert (again.message.content, again.message.tool_calls) == (content, calls)
    assert (again.finish_reason, again.usage, again.model) == (finish, USAGE, "m")
    assert _streamed(reply).message == replace(again.message, native=_streamed(reply).message.native)


def _streamed(reply: ModelReply) -> ModelReply:
    writer = WIRE.write_stream(DoorRequest(model="m", messages=()), HEAD)
    return _reading(writer.end(reply))


def _reading(data: bytes) -> ModelReply:
    reader = WIRE.read_stream(ModelRequest(model="m", messages=()), who="anthropic", author="anthropic:m")
    for _ in _deltas(reader, data):
        pass
    reader.end()
    return reader.reply()


def _deltas(reader: Any, data: bytes) -> Iterator[ModelDelta]:
    for event in data.split(b"\n\n")[:-1]:
        name, _, line = event.partition(b"\n")
        assert json.loads(line.removeprefix(b"data: "))["type"] == name.removeprefix(b"event: ").decode()
        delta = reader.add(line.removeprefix(b"data: "))
        if delta is not None:
            yield delta


def test_native_blocks_go_out_with_their_signatures_and_the_new_ids_of_the_calls() -> None:
    calls = (ToolCall(id="call_9", name="freeze", arguments='{"id":7}'),)
    message = Message(role="assistant", content="I will.", tool_calls=calls, native=NATIVE, author="anthropic:m")
    body = json.loads(WIRE.write_reply(ModelReply(message=message, finish_reason="tool_calls"), HEAD))
    assert body["content"] == [*NATIVE[:2], {**NATIVE[2], "id": "call_9"}]
    assert (body["id"], body["model"], body["stop_reason"]) == ("msg_run_1", "claude-sonnet-5", "tool_use")
    other = replace(message, native=({"type": "reasoning", "encrypted_content": "x"},))
    assert [block["type"] for block in json.loads(WIRE.write_reply(ModelReply(message=other), HEAD))["content"]] == [
        "text",
        "tool_use",
    ]


def test_a_stream_is_written_as_it_was_read() -> None:
    writer = WIRE.write_stream(DoorRequest(model="m", messages=()), HEAD)
    calls = (ToolCall(id="t1", name="freeze", arguments='{"id":7}'),)
    deltas = [
        ModelDelta(reasoning="h"),
        ModelDelta(reasoning="m"),
        ModelDelta(signature="s1"),
        ModelDelta(text="I will."),
    ]
    data = b"".join(map(writer.add, deltas))
    message = Message(role="assistant", content="I will.", tool_calls=calls)
    data += writer.end(ModelReply(message=message, finish_reason="tool_calls", usage=USAGE))
    reply = _reading(data)
    assert reply.message.native == NATIVE
    assert (reply.finish_reason, reply.usage, reply.model) == ("tool_calls", USAGE, "claude-sonnet-5")
    reader = WIRE.read_stream(ModelRequest(model="m", messages=()), who="a", author="a:m")
    seen = list(_deltas(reader, data))
    assert seen[:4] == deltas
    assert "".join(piece.arguments for delta in seen for piece in delta.calls) == '{"id":7}'


def test_pieces_of_several_calls_may_alternate() -> None:
    from_chat = [
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"q\\":1}"}}]}}]}',
        b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}',
    ]
    reader = ChatWire().read_stream(ModelRequest(model="m", messages=()), who="openai", author="openai:m")
    writer = WIRE.write_stream(DoorRequest(model="m", messages=()), HEAD)
    data = b"".join(writer.add(delta) for piece in from_chat if (delta := reader.add(piece)) is not None)
    again = _reading(data + writer.end(reader.reply()))
    assert [(call.id, call.name, call.arguments) for call in again.message.tool_calls] == [
        ("a", "x", '{"q":1}'),
        ("b", "y", "{}"),
    ]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (401, "authentication_error"), (429, "rate_limit_error"), (500, "api_error"),
     (502, "api_error"), (529, "overloaded_error"), (422, "invalid_request_error")],
)  # fmt: skip
def test_an_error_has_the_format_of_the_api_and_its_type_for_the_status(status: int, kind: str) -> None:
    problem = Problem(status=status, message="no", kind="server_error")
    assert json.loads(WIRE.write_error(problem)) == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_an_upstreams_error_of_this_api_passes_unchanged_and_one_of_another_api_is_completed() -> None:
    own = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"r"}'
    assert WIRE.write_error(Problem(status=429, message="x", kind="y", upstream=own)) == own
    other = b'{"error":{"message":"slow","code":"rate"}}'
    error = json.loads(WIRE.write_error(Problem(status=429, message="openai: slow", kind="y", upstream=other)))
    assert error == {"type": "error", "error": {"type": "rate_limit_error", "message": "openai: slow", "code": "rate"}}


def test_an_error_within_a_stream_is_raised_by_its_type() -> None:
    event = WIRE.write_error_event(
        Problem(status=429, message="slow down", kind="y", headers={"x-should-retry": "false"})
    )
    name, data, *_ = event.split(b"\n")
    assert (name, json.loads(data[6:])["error"]["should_retry"]) == (b"event: error", False)
    reader = WIRE.read_stream(ModelRequest(model="m", messages=()), who="anthropic", author="a:m")
    with pytest.raises(ProviderRateLimitError, match="slow down"):
        reader.add(data[6:])


def test_a_complaint_has_the_format_of_the_api_and_signatures_are_checked_only_if_known() -> None:
    assert WIRE.complaint("/v1/messages", CLIENTS) is None
    refused = WIRE.complaint("/v1/messages", {**CLIENTS, "max_tokens": 0})
    assert refused is not None
    assert refused["error"] == {
        "type": "invalid_request_error",
        "message": "max_tokens: must be greater than or equal to 1",
    }
