"""The chat-completions provider, over real sockets: against the strict upstream, and against every broken one."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from aiohttp import web

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import (
    ConfigError,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.providers.openai_chat import OpenAIChat, from_settings
from toolcaddie.testing import (
    Exchange,
    ScriptedUpstream,
    call,
    calls,
    cut,
    empty_choices,
    endless,
    garbage,
    paced,
    refuse,
    say,
)
from toolcaddie.wires.chat.content import read_content
from toolcaddie.wires.chat.messages import write_message

pytestmark = pytest.mark.anyio

KEY = "sk-secret-0123456789"
HELLO = ModelRequest(model="gpt-test", messages=(Message(role="user", content="hello"),))
TOOL = {"type": "function", "function": {"name": "freeze", "parameters": {"type": "object", "properties": {}}}}


@asynccontextmanager
async def wired(script: Any, **options: Any) -> AsyncIterator[tuple[OpenAIChat, ScriptedUpstream]]:
    async with ScriptedUpstream(script, api_key=KEY) as upstream:
        provider = OpenAIChat(upstream.base_url, KEY, **options)
        try:
            yield provider, upstream
        finally:
            await provider.close()


async def streamed(provider: OpenAIChat, request: ModelRequest = HELLO) -> tuple[list[ModelDelta], ModelReply]:
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return [item for item in items if isinstance(item, ModelDelta)], items[-1]


async def asked(provider: OpenAIChat, stream: bool, request: ModelRequest = HELLO) -> ModelReply:
    return (await streamed(provider, request))[1] if stream else await provider.complete(request)


both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@dataclass(frozen=True)
class Bytes:
    """A step: these bytes as an event stream, in these pieces."""

    pieces: Sequence[bytes]

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        for piece in self.pieces:
            await exchange.send_bytes(piece)
        return await exchange.end()


def chunks(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True, **top: Any) -> Bytes:
    """A step: a stream of these deltas."""
    made = [{"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta}], **top} for delta in deltas]
    if finish:
        made.append({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **top})
    events = [msgspec.json.encode(chunk) for chunk in made] + ([b"[DONE]"] if done else [])
    return Bytes([b"data: " + event + b"\n\n" for event in events])


# ---------------------------------------------------------------- answers


@both_ways
async def test_words_calls_usage_and_reason_come_back(stream: bool) -> None:
    async with wired([calls(("a", {"x": "ä"}), ("b", None), text="both")]) as (provider, _):
        reply = await asked(provider, stream)
    assert reply.message.content == "both"
    assert [(each.id, each.name, each.arguments) for each in reply.message.tool_calls] == [
        ("call_1_0", "a", '{"x":"ä"}'),
        ("call_1_1", "b", "{}"),
    ]
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(input_tokens=100, output_tokens=10)
    assert reply.model == "gpt-test"
    assert reply.raw is not None
    assert reply.raw.fields["id"] == "chatcmpl-1"
    assert reply.raw.fields["object"] == "chat.completion"
    assert reply.raw.fields["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "a"
    assert reply.raw.fields["usage"]["total_tokens"] == 110


async def test_a_stream_comes_piece_by_piece() -> None:
    async with wired([call("freeze", {"member": "John"}, text="One moment")]) as (provider, _):
        deltas, reply = await streamed(provider)
    texts = [delta.text for delta in deltas if delta.text]
    assert len(texts) > 1
    assert "".join(texts) == "One moment"
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert pieces[0] == CallDelta(index=0, id="call_1_0", name="freeze")
    assert "".join(piece.arguments for piece in pieces) == reply.message.tool_calls[0].arguments == '{"member":"John"}'


@pytest.mark.parametrize("asks", [True, False])
async def test_usage_is_always_known_and_shown_only_to_who_asked(asks: bool) -> None:
    params = {"stream_options": {"include_usage": True}} if asks else {}
    request = ModelRequest(model="gpt-test", messages=HELLO.messages, params=params)
    async with wired([say("hi")]) as (provider, upstream):
        deltas, reply = await streamed(provider, request)
        assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    assert reply.usage.input_tokens == 100
    assert any("usage" in (delta.raw or {}) for delta in deltas) is asks
    assert any(not (delta.raw or {})["choices"] for delta in deltas) is asks


async def test_a_server_that_does_not_know_stream_options_is_not_sent_them() -> None:
    async with wired([say("hi")], stream_usage=False) as (provider, upstream):
        _, reply = await streamed(provider)
        assert "stream_options" not in upstream.bodies[0]
    assert reply.usage == Usage()


async def test_unknown_fields_of_an_answer_are_kept() -> None:
    async with wired([say("x", extra={"reasoning_content": "hmm"})] * 2) as (provider, _):
        plain, (_, whole) = await provider.complete(HELLO), await streamed(provider)
    for reply in (plain, whole):
        assert reply.message.extra == {"reasoning_content": "hmm"}
        assert reply.raw is not None
        assert reply.raw.fields["service_tier"] == "default"


async def test_reasoning_and_refusals_in_pieces_are_joined() -> None:
    step = chunks({"role": "assistant", "reasoning": "a"}, {"reasoning": "b"}, {"refusal": "no"}, {"refusal": " way"})
    async with wired([step]) as (provider, _):
        deltas, reply = await streamed(provider)
    assert reply.message.extra == {"reasoning": "ab", "refusal": "no way"}
    assert deltas[1].raw is not None
    assert deltas[1].raw["choices"][0]["delta"] == {"reasoning": "b"}


async def test_a_stream_cut_into_single_bytes_reads_the_same() -> None:
    whole = b"".join(chunks({"content": "grüße"}, {"content": " \u2028 you"}).pieces).replace(b"\n", b"\r\n")
    noisy = b": ping\r\n\r\nevent: x\r\n" + whole
    async with wired([Bytes([bytes([byte]) for byte in noisy])]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.message.content == "grüße \u2028 you"


async def test_a_stream_may_end_without_done_once_it_gave_a_reason() -> None:
    async with wired([chunks({"content": "hi"}, done=False)]) as (provider, _):
        _, reply = await streamed(provider)
    assert (reply.message.content, reply.finish_reason) == ("hi", "stop")


async def test_a_last_event_without_its_blank_line_counts() -> None:
    pieces = [*chunks({"content": "hi"}, finish=None, done=False).pieces, b"data: [DONE]"]
    async with wired([Bytes(pieces)]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.message.content == "hi"


def fragment(**fields: Any) -> dict[str, Any]:
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return {"tool_calls": [{**fields, "function": function}]}


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(
            [fragment(index=0, id="c1", name="a", arguments='{"x"'), fragment(index=0, arguments=":1}")],
            [("c1", "a", '{"x":1}')],
            id="as the standard has it",
        ),
        pytest.param(
            [
                fragment(index=0, id="c1", name="a", arguments="{"),
                fragment(index=1, id="c2", name="b", arguments="{"),
                fragment(index=0, arguments="}"),
                fragment(index=1, arguments="}"),
            ],
            [("c1", "a", "{}"), ("c2", "b", "{}")],
            id="interleaved",
        ),
        pytest.param(
            [fragment(id="c1", name="a", arguments="{"), fragment(arguments="}"), fragment(id="c2", name="b")],
            [("c1", "a", "{}"), ("c2", "b", "{}")],
            id="no index",
        ),
        pytest.param(
            [fragment(name="a", arguments="{}"), fragment(name="a", arguments='{"x":1}')],
            [(None, "a", "{}"), (None, "a", '{"x":1}')],
            id="no index and no id: whole calls",
        ),
        pytest.param(
            [
                fragment(index=0, id="c1", name="a", arguments="{}"),
                fragment(index=0, id="c2", name="a", arguments="{}"),
            ],
            [("c1", "a", "{}"), ("c2", "a", "{}")],
            id="every call at index 0",
        ),
        pytest.param(
            [fragment(index=0, id="c1", name="a", arguments="{"), fragment(index=0, id="c1", name="a", arguments="}")],
            [("c1", "a", "{}")],
            id="id and name repeated",
        ),
        pytest.param(
            [fragment(index=0, id="c1", name="a", arguments="{"), fragment(index=0, id="zz", arguments="}")],
            [("c1", "a", "{}")],
            id="a new id for every piece",
        ),
        pytest.param(
            [fragment(index=0, id="c1", name="a", arguments="{"), fragment(id="c1", arguments="}")],
            [("c1", "a", "{}")],
            id="found by its id",
        ),
        pytest.param(
            [fragment(index=3, id="c1", name="a"), fragment(index=7, id="c2", name="b")],
            [("c1", "a", "{}"), ("c2", "b", "{}")],
            id="indices with gaps",
        ),
        pytest.param(
            [fragment(index=0, id="c1", name="a", arguments=None), {"tool_calls": None}],
            [("c1", "a", "{}")],
            id="nulls",
        ),
    ],
)
async def test_calls_are_put_together_from_the_pieces_of_every_server(
    pieces: list[dict[str, Any]], expected: list[tuple[str | None, str, str]]
) -> None:
    async with wired([chunks(*pieces, finish="tool_calls")]) as (provider, _):
        deltas, reply = await streamed(provider)
    made = reply.message.tool_calls
    assert [(each.name, each.arguments) for each in made] == [(name, arguments) for _, name, arguments in expected]
    wanted = [call_id for call_id, _, _ in expected]
    assert [each.id if call_id else None for each, call_id in zip(made, wanted, strict=True)] == wanted
    assert all(each.id for each in made)
    assert len({each.id for each in made}) == len(made)
    opened = {piece.index: piece for delta in deltas for piece in delta.calls if piece.id}
    assert [(opened[i].id, opened[i].name) for i in range(len(made))] == [(each.id, each.name) for each in made]


# ---------------------------------------------------------------- requests


async def test_a_request_goes_out_as_it_was_meant() -> None:
    history = (
        Message(role="system", content="be brief"),
        Message(
            role="user",
            content=read_content(({"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}})),
        ),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="freeze", arguments='{"a":1}'),), extra={"x": 1}),
        Message(role="tool", tool_call_id="c1", content="done"),
    )
    request = ModelRequest(
        model="gpt-test",
        messages=history,
        tools=(TOOL,),
        tool_choice="required",
        params=MappingProxyType({"temperature": 0.5, "logit_bias": {"5": 1}, "stream": True}),
        headers={"X-Trace": "t", "Authorization": "Bearer stolen", "Host": "evil"},
    )
    async with wired([say("ok")]) as (provider, upstream):
        await provider.complete(request)
    sent = upstream.requests[0]
    assert sent.body == {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "freeze", "arguments": '{"a":1}'}}
                ],
                "x": 1,
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [TOOL],
        "tool_choice": "required",
        "temperature": 0.5,
        "logit_bias": {"5": 1},
    }
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["x-trace"] == "t"
    assert sent.headers["host"].startswith("127.0.0.1:")
    assert sent.headers["user-agent"] == "toolcaddie"


async def test_definitions_that_are_encoded_already_go_out_byte_for_byte() -> None:
    odd = b'{"type":"function",  "function": {"name":"other","parameters":{"type":"object","properties":{}}}}'
    request = ModelRequest(model="gpt-test", messages=HELLO.messages, tools=(TOOL, msgspec.Raw(odd)))  # type: ignore[arg-type]
    async with wired([say("ok"), say("ok")]) as (provider, upstream):
        await provider.complete(request)
        await streamed(provider, request)
    for sent in upstream.requests:
        assert odd in sent.raw
        assert sent.body["tools"] == [TOOL, msgspec.json.decode(odd)]


async def test_a_request_without_a_model_asks_the_default_one() -> None:
    request = ModelRequest(model="", messages=HELLO.messages)
    async with wired([say("ok")], default_model="gpt-own") as (provider, upstream):
        await provider.complete(request)
        assert upstream.bodies[0]["model"] == "gpt-own"


CUSTOM = {"id": "c1", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}


def answered(*wire_calls: dict[str, Any], **fields: Any) -> Any:
    """A step: a plain answer with these calls."""
    message = {"role": "assistant", "content": None, "tool_calls": list(wire_calls), **fields}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return garbage(msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice]}))


@pytest.mark.parametrize(
    "wire_call",
    [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "a", "arguments": "not json", "strict": True},
            "extra_content": {"google": {"thought_signature": "s"}},
        },
        CUSTOM,
        {"id": "c1", "type": "custom", "custom": {"name": "code", "input": ""}, "extra_content": {"a": 1}},
        {"id": "c1", "type": "kind_to_come", "kind_to_come": {"action": "look"}},
    ],
)
@both_ways
async def test_a_call_of_any_kind_comes_in_and_goes_out_unchanged(stream: bool, wire_call: dict[str, Any]) -> None:
    step = chunks({"tool_calls": [{"index": 0, **wire_call}]}, finish="tool_calls") if stream else answered(wire_call)
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    assert write_message(reply.message)["tool_calls"] == [wire_call]


@both_ways
async def test_a_custom_call_has_its_tools_name_and_its_input_to_read(stream: bool) -> None:
    step = chunks({"tool_calls": [{"index": 0, **CUSTOM}]}, finish="tool_calls") if stream else answered(CUSTOM)
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    assert reply.message.tool_calls == (
        ToolCall(
            id="c1",
            name="code",
            arguments="print(1)",
            extra={"type": "custom", "custom": {"name": "code", "input": "print(1)"}},
        ),
    )


async def test_a_custom_call_in_pieces_is_whole_in_the_reply_and_only_functions_are_streamed() -> None:
    step = chunks(
        {"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "code", "input": ""}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "print"}}]},
        fragment(index=1, id="c2", name="a", arguments="{"),
        {"tool_calls": [{"index": 0, "custom": {"input": "(1)"}}, {"index": 1, "function": {"arguments": "}"}}]},
        finish="tool_calls",
    )
    async with wired([step]) as (provider, _):
        deltas, reply = await streamed(provider)
    assert reply.raw is not None
    assert reply.raw.fields["choices"][0]["message"]["tool_calls"] == [
        CUSTOM,
        {"id": "c2", "type": "function", "function": {"name": "a", "arguments": "{}"}},
    ]
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert pieces == [CallDelta(index=1, id="c2", name="a", arguments="{"), CallDelta(index=1, arguments="}")]


async def test_unknown_fields_of_a_streamed_call_are_kept() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "ab"}}}
    step = chunks(
        fragment(index=0, id="c1", name="a", **signed),
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}, "extra_content": {"google": {"seen": 1}}}]},
        finish="tool_calls",
    )
    async with wired([step]) as (provider, _):
        _, reply = await streamed(provider)
    expected = {"extra_content": {"google": {"thought_signature": "ab", "seen": 1}}}
    assert reply.message.tool_calls == (ToolCall(id="c1", name="a", extra=expected),)


async def test_models_are_listed() -> None:
    async with wired([]) as (provider, _):
        assert [model["id"] for model in await provider.models()] == ["gpt-test"]


async def test_connections_are_used_again_also_after_a_stream() -> None:
    async with wired(lambda _: say("ok")) as (provider, upstream):
        for _ in range(3):
            await provider.complete(HELLO)
            await streamed(provider)
        assert len({request.peer for request in upstream.requests}) == 1


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ProviderRejectedError, False),
        (401, ProviderAuthError, False),
        (403, ProviderAuthError, False),
        (404, ProviderRejectedError, False),
        (408, ProviderUnavailableError, True),
        (422, ProviderRejectedError, False),
        (429, ProviderRateLimitError, True),
        (500, ProviderUnavailableError, True),
        (503, ProviderUnavailableError, True),
        (529, ProviderUnavailableError, True),
    ],
)
@both_ways
async def test_an_error_status_is_raised_as_its_kind_with_what_the_provider_said(
    stream: bool, status: int, kind: type[ProviderError], retryable: bool
) -> None:
    async with wired([refuse(status, "no such luck", code="x9", headers={"retry-after": "7"})]) as (provider, _):
        with pytest.raises(kind, match=f"openai: no such luck .HTTP {status}.") as raised:
            await asked(provider, stream)
    assert (raised.value.status, raised.value.retryable, raised.value.retry_after) == (status, retryable, 7.0)
    assert msgspec.json.decode(raised.value.body)["error"]["code"] == "x9"


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("1.5", 1.5, 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86_400, 86_400),
        ("1e300", 86_400, 86_400),
        ("-3", 0, 0),
    ],
)
async def test_retry_after_is_read_as_seconds_or_as_a_date_and_is_a_day_at_most(
    header: str, low: float, high: float
) -> None:
    async with wired([refuse(429, headers={"retry-after": header})]) as (provider, _):
        with pytest.raises(ProviderRateLimitError) as raised:
            await provider.complete(HELLO)
    assert raised.value.retry_after is not None
    assert low <= raised.value.retry_after <= high


@pytest.mark.parametrize(
    "header", ["soon", "inf", "nan", "Wed, 99 Oct 2015 07:28:00 GMT", "Fri, 01 Jan 99999999999 00:00:00 GMT", " "]
)
async def test_a_retry_after_nobody_understands_is_none(header: str) -> None:
    async with wired([refuse(429, headers={"retry-after": header})]) as (provider, _):
        with pytest.raises(ProviderRateLimitError) as raised:
            await provider.complete(HELLO)
    assert raised.value.retry_after is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"plain words", "plain words"),
        (b'{"detail":"nope"}', "nope"),
        (b'{"error":"text"}', "text"),
        (b"", "empty body"),
    ],
)
async def test_error_bodies_of_other_shapes_are_shown_too(body: bytes, words: str) -> None:
    async with wired([garbage(body, status=500)]) as (provider, _):
        with pytest.raises(ProviderUnavailableError, match=words):
            await provider.complete(HELLO)


MALFORMED = [
    (b"<html>oh</html>", "not JSON"),
    (b"[1]", "not a JSON object"),
    (b"\xff\xfe", "not JSON"),
    (b'{"error":{"message":"overloaded"}}', "stopped with an error: overloaded"),
    (b'{"choices":[]}', "choice"),
    (b'{"choices":{}}', "unknown shape"),
    (b'{"choices":[7]}', "unknown shape"),
]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *MALFORMED,
        (b"{}", "unknown shape"),
        (b'{"choices":[{}]}', "unknown shape"),
        (b'{"choices":[{"message":{"content":7}}]}', r"unknown shape.*content"),
        (b'{"choices":[{"message":{"tool_calls":[{"id":"c"}]}}]}', "unknown shape.*function"),
        (b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"a","arguments":{}}}]}}]}', "arguments"),
        (b'{"choices":[{"message":{}}],"usage":{"prompt_tokens":"many"}}', "prompt_tokens"),
    ],
)
async def test_an_answer_that_breaks_the_protocol_is_named_as_such(body: bytes, words: str) -> None:
    async with wired([garbage(body)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await provider.complete(HELLO)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *MALFORMED,
        (b"{}", "without `choices`"),
        (b'{"choices":[{"delta":{"content":7}}]}', "unknown shape.*content"),
        (
            b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}',
            "began a tool call without a name",
        ),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":"0"}]}}]}', "unknown shape.*index"),
    ],
)
async def test_a_stream_that_breaks_the_protocol_is_named_as_such(body: bytes, words: str) -> None:
    async with wired([Bytes([b"data: " + body + b"\n\ndata: [DONE]\n\n"])]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await streamed(provider)


async def test_an_error_in_the_middle_of_a_stream_is_raised_after_what_came_before() -> None:
    begun = chunks({"content": "he"}, finish=None, done=False).pieces
    error = b'event: error\ndata: {"error":{"message":"server_overloaded"}}\n\n'
    async with wired([Bytes([*begun, error])]) as (provider, _):
        stream = provider.stream(HELLO)
        first = await anext(stream)
        assert isinstance(first, ModelDelta)
        assert first.text == "he"
        with pytest.raises(ProviderProtocolError, match="server_overloaded"):
            await anext(stream)


@both_ways
async def test_no_choices_are_no_answer(stream: bool) -> None:
    async with wired([empty_choices()]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match="choice"):
            await asked(provider, stream)


@pytest.mark.parametrize("clean", [True, False], ids=["ended early", "broken connection"])
@both_ways
async def test_a_cut_answer_is_an_error(stream: bool, clean: bool) -> None:
    async with wired([cut(say("a long answer"), after=2, clean=clean)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=r"cut its|not JSON"):
            await asked(provider, stream)


@both_ways
async def test_an_answer_of_another_kind_is_an_error_that_quotes_it(stream: bool) -> None:
    async with wired([garbage(b"<h1>Welcome to nginx</h1>", content_type="text/html")]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=r"text/html.*Welcome to nginx"):
            await asked(provider, stream)


async def test_nobody_listening_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    provider = OpenAIChat(f"http://127.0.0.1:{port}/v1", KEY)
    for attempt in (provider.complete(HELLO), anext(aiter(provider.stream(HELLO))), provider.forward("GET", "/models")):
        with pytest.raises(ProviderUnavailableError, match=f"cannot be reached at http://127.0.0.1:{port}"):
            await attempt
    await provider.close()


@both_ways
async def test_an_answer_that_does_not_come_is_unavailable(stream: bool) -> None:
    request = ModelRequest(model="gpt-test", messages=HELLO.messages, timeout=0.05)
    async with wired([paced(say("late"), asyncio.Semaphore(1 if stream else 0))]) as (provider, upstream):
        with pytest.raises(ProviderUnavailableError, match="in time"):
            await asked(provider, stream, request)
        await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "client left"


async def test_a_server_that_hangs_up_without_a_word_is_unavailable() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    provider = OpenAIChat(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", KEY)
    with pytest.raises(ProviderUnavailableError):
        await provider.complete(HELLO)
    await provider.close()
    server.close()


async def test_a_server_that_does_not_speak_http_is_a_protocol_error() -> None:
    async def mumble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    server = await asyncio.start_server(mumble, "127.0.0.1", 0)
    provider = OpenAIChat(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", KEY)
    with pytest.raises(ProviderProtocolError, match="does not answer with correct HTTP"):
        await provider.complete(HELLO)
    await provider.close()
    server.close()


async def test_a_redirect_to_another_host_is_refused_and_takes_no_key_along() -> None:
    async with ScriptedUpstream([], api_key=None) as other:
        step = refuse(307, headers={"location": f"{other.base_url.replace('127.0.0.1', 'localhost')}/chat/completions"})
        async with wired([step]) as (provider, _):
            with pytest.raises(ProviderRejectedError, match="redirects to another host, http://localhost"):
                await provider.complete(HELLO)
        assert other.requests == []


@pytest.mark.parametrize("bounds", [Bounds(answer=100_000), Bounds(event=100_000)], ids=["answer", "event"])
@both_ways
async def test_an_answer_without_end_fills_no_memory(stream: bool, bounds: Bounds) -> None:
    of_events = bounds.event == 100_000
    step: Any = Bytes([b"data: " + b"x" * 60_000] + [b"x" * 60_000] * 20) if of_events else endless()
    if not stream:
        step = garbage(b" " * 100_001)
    async with wired([step], bounds=bounds) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=r"larger than|more than|not JSON"):
            await asked(provider, stream)


@pytest.mark.parametrize("how", ["cancelled", "closed", "dropped"])
async def test_leaving_a_stream_closes_the_connection_to_the_provider(how: str) -> None:
    gate = asyncio.Semaphore(1)
    async with wired([paced(say("slow"), gate)]) as (provider, upstream):
        started = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(HELLO):
                started.set()

        if how == "cancelled":
            task = asyncio.ensure_future(read())
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "closed":
            async with aclosing(provider.stream(HELLO)) as stream:  # type: ignore[type-var]
                await anext(stream)
        else:
            stream = provider.stream(HELLO)
            await anext(stream)
            del stream
            gc.collect()
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "client left"


async def test_cancelling_a_plain_request_closes_the_connection_to_the_provider() -> None:
    arrived = asyncio.Event()

    async def never(_: Any) -> Any:
        arrived.set()
        await asyncio.Event().wait()

    async with wired([never]) as (provider, upstream):
        task = asyncio.ensure_future(provider.complete(HELLO))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "client left"


@pytest.mark.parametrize(
    "step",
    [
        refuse(401, f"Incorrect API key provided: {KEY}"),
        garbage(b"you sent " + KEY.encode(), content_type="text/plain"),
        garbage(b'{"error":{"message":"bad key ' + KEY.encode() + b'"}}'),
        garbage(KEY.encode()),
    ],
)
@both_ways
async def test_the_key_shows_in_no_error(stream: bool, step: Any) -> None:
    async with wired([step]) as (provider, _):
        with pytest.raises(ProviderError) as raised:
            await asked(provider, stream)
        error = raised.value
        assert KEY not in f"{error!s} {error!r} {error.body!r} {provider!r}"
        assert b"***" in error.body


@both_ways
async def test_neither_a_callers_key_nor_one_in_a_header_of_ours_shows_in_an_error(stream: bool) -> None:
    told = refuse(401, "no: portal-key-123456, Bearer sk-of-the-caller-99, team-of-nine")
    async with ScriptedUpstream([told], api_key=None) as upstream:
        ours = {"X-Portal-Key": "portal-key-123456", "X-Team": "team-of-nine"}
        provider = OpenAIChat(upstream.base_url, None, headers=ours)
        with pytest.raises(ProviderError) as raised:
            await asked(provider, stream, replace(HELLO, headers={"Authorization": "Bearer sk-of-the-caller-99"}))
        await provider.close()
    assert "no: ***, Bearer ***, team-of-nine" in str(raised.value)
    assert b"99" not in raised.value.body


@both_ways
async def test_a_key_after_any_scheme_of_authorization_does_not_show_in_an_error(stream: bool) -> None:
    async with ScriptedUpstream([refuse(401, "no: cHJvdmlkZXIta2V5")], api_key=None) as upstream:
        provider = OpenAIChat(upstream.base_url, None, headers={"Authorization": "basic cHJvdmlkZXIta2V5"})
        with pytest.raises(ProviderError, match=r"no: \*\*\*"):
            await asked(provider, stream)
        await provider.close()


# ---------------------------------------------------------------- raw


async def test_forward_gives_the_raw_answer_whatever_its_status() -> None:
    async with wired([say("hi"), refuse(418, "teapot")]) as (provider, upstream):
        body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "x"}], "odd": [1]})
        theirs = {"Authorization": "Bearer of the gateway", "Cookie": "a=b", "X-Trace": "t"}
        async with await provider.forward("POST", "/chat/completions", body, theirs) as response:
            assert response.status == 200
            assert msgspec.json.decode(await response.read())["choices"][0]["message"]["content"] == "hi"
        async with await provider.forward("POST", "/chat/completions", body) as response:
            assert response.status == 418
        sent = upstream.requests[0]
        assert sent.raw == body
        assert (sent.headers["authorization"], sent.headers["x-trace"]) == (f"Bearer {KEY}", "t")
        assert "cookie" not in sent.headers


async def test_without_a_key_of_ours_the_callers_is_what_the_upstream_is_asked_with() -> None:
    async with ScriptedUpstream([], api_key=None) as upstream:
        provider = OpenAIChat(upstream.base_url)
        (await provider.forward("GET", "/models", headers={"authorization": "Bearer gateway"})).close()
        await provider.close()
        assert upstream.requests[0].headers["authorization"] == "Bearer gateway"


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs a key"),
        ({"base_url": "ftp://x"}, "must begin with http"),
        ({"base_url": "localhost:8000"}, "must begin with http"),
        ({"base_url": "http://user:sk-1@host/v1"}, "holds credentials"),
        ({"api_key": "sk-\n"}, "copy the key again"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        from_settings(**settings)
    assert "sk-" not in str(refused.value)


async def test_settings_make_a_provider_that_works_again_after_it_was_closed() -> None:
    async with ScriptedUpstream(lambda _: say("hi"), api_key=None) as upstream:
        provider = from_settings(base_url=f"{upstream.base_url}/", api_key=None, model="m")
        for _ in range(2):
            assert (await provider.complete(ModelRequest(model="", messages=HELLO.messages))).message.content == "hi"
            await provider.close()
        assert upstream.bodies[0]["model"] == "m"
