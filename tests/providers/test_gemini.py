"""The Gemini provider, over real sockets: against the strict upstream and every broken one, and beside the official package."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from aiohttp import web
from google import genai
from google.genai import types

from toolcaddie.core.content import Image, Text
from toolcaddie.core.errors import (
    ConfigError,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.providers.gemini import Gemini, from_settings
from toolcaddie.testing import (
    Exchange,
    Reply,
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
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.wires.chat.content import read_content

pytestmark = pytest.mark.anyio

KEY = "AIza-secret-0123456789"
MODEL = "gemini-3.5-flash"
OLD = "gemini-2.5-flash"
AUTHOR = f"gemini:{MODEL}"
USER = Message(role="user", content="hello")
HELLO = ModelRequest(model=MODEL, messages=(USER,))
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
UNSIGNED = "skip_thought_signature_validator"
PIXEL = base64.b64encode(b"\x89PNG not really").decode()


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": SCHEMA, **more}}


TOOLS = (tool("find"), tool("freeze"))


def asking(*messages: Message, model: str = MODEL, **more: Any) -> ModelRequest:
    return ModelRequest(model=model, messages=messages or (USER,), **more)


def result(call_id: str | None, content: Any = "ok", **more: Any) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=content, **more)


def called(*names: str, arguments: str = "{}", **more: Any) -> Message:
    """A message with calls `c0`, `c1`, ... that no Gemini model wrote."""
    made = tuple(ToolCall(id=f"c{at}", name=name, arguments=arguments) for at, name in enumerate(names))
    return Message(role="assistant", tool_calls=made, **more)


@asynccontextmanager
async def wired(
    script: Any, *, wire: GeminiWire | None = None, **options: Any
) -> AsyncIterator[tuple[Gemini, ScriptedUpstream]]:
    async with ScriptedUpstream(script, api_key=KEY, wire=wire or GeminiWire()) as upstream:
        provider = Gemini(upstream.base_url, KEY, **options)
        try:
            yield provider, upstream
        finally:
            await provider.close()


async def streamed(provider: Gemini, request: ModelRequest = HELLO) -> tuple[list[ModelDelta], ModelReply]:
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return [item for item in items if isinstance(item, ModelDelta)], items[-1]


async def asked(provider: Gemini, stream: bool, request: ModelRequest = HELLO) -> ModelReply:
    return (await streamed(provider, request))[1] if stream else await provider.complete(request)


async def sent(request: ModelRequest) -> Any:
    """The body that goes out for a request which the strict upstream accepts."""
    async with wired([say("ok")]) as (provider, upstream):
        await provider.complete(request)
        return upstream.bodies[0]


both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@dataclass(frozen=True)
class Events:
    """A step: these answers, each an event of a stream, or the last of them whole."""

    answers: Sequence[Mapping[str, Any]]
    byte_by_byte: bool = False

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        if not exchange.streams:
            return await exchange.send_json(200, self.answers[-1])
        body = b"".join(exchange.wire.block(msgspec.json.encode(each)) for each in self.answers)
        for piece in [bytes([byte]) for byte in body] if self.byte_by_byte else [body]:
            await exchange.send_bytes(piece)
        return await exchange.end()


def answer(*parts: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


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
    assert (reply.model, reply.message.author, reply.raw) == (MODEL, AUTHOR, None)


@both_ways
async def test_words_alone_are_content_and_finish_by_stop(stream: bool) -> None:
    async with wired([say("Grüße \u2028 you"), say("")]) as (provider, _):
        reply, silent = await asked(provider, stream), await asked(provider, stream)
    assert (reply.message.content, reply.message.tool_calls, reply.finish_reason) == ("Grüße \u2028 you", (), "stop")
    assert (silent.message.content, silent.finish_reason) == ("", "stop")


async def test_a_stream_comes_piece_by_piece_and_numbers_its_calls() -> None:
    scripted = replace(
        calls(("a", {"x": 1}), ("b", None), ("a", {}), ("c", {}), text="One moment"), reasoning="Let me see"
    )
    async with wired([scripted]) as (provider, _):
        deltas, reply = await streamed(provider)
    for kind, whole in (("text", "One moment"), ("reasoning", "Let me see")):
        pieces = [getattr(delta, kind) for delta in deltas if getattr(delta, kind)]
        assert len(pieces) > 1
        assert "".join(pieces) == whole
    assert [piece for delta in deltas for piece in delta.calls] == [
        CallDelta(index=index, id=each.id, name=each.name, arguments=each.arguments)
        for index, each in enumerate(reply.message.tool_calls)
    ]
    assert [each.name for each in reply.message.tool_calls] == ["a", "b", "a", "c"]
    assert reply.message.content == "One moment"


async def test_a_stream_cut_into_single_bytes_reads_the_same() -> None:
    parts = ({"text": "grüße"}, {"functionCall": {"name": "a", "args": {"é": ["😀", None]}, "id": "c1"}})
    async with wired([Events([answer(*parts, finish="STOP")], byte_by_byte=True)]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.message.content == "grüße"
    assert reply.message.tool_calls == (ToolCall(id="c1", name="a", arguments='{"é":["😀",null]}'),)


@both_ways
async def test_usage_knows_what_was_cached_and_thought(stream: bool) -> None:
    usage = Usage(input_tokens=900, output_tokens=70, cached_tokens=800, reasoning_tokens=50)
    counted = {"promptTokenCount": 5, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4}
    counts = {**answer({"text": "x"}, finish="STOP"), "usageMetadata": counted}
    async with wired([replace(say("hi"), usage=usage), Events([counts])]) as (provider, _):
        assert (await asked(provider, stream)).usage == usage
        reply = await asked(provider, stream)
    assert reply.usage == Usage(input_tokens=8, output_tokens=6, reasoning_tokens=4)


@both_ways
@pytest.mark.parametrize("model", [MODEL, OLD])
@pytest.mark.parametrize("call_ids", [True, False])
async def test_thoughts_and_signatures_come_back_as_they_were_over_several_rounds(
    stream: bool, model: str, call_ids: bool
) -> None:
    script = [
        replace(calls(("find", {"id": 1}), ("freeze", {}), text="Two at once."), reasoning="First both"),
        replace(call("find", {"id": 2}), reasoning="Then one more"),
        replace(say("Done."), reasoning="That is all"),
        say("You are welcome."),
    ]
    messages = [USER]
    async with wired(script, wire=GeminiWire(call_ids=call_ids)) as (provider, upstream):
        for turn in range(4):
            reply = await asked(provider, stream, asking(*messages, model=model, tools=TOOLS))
            messages.append(reply.message)
            messages += [result(each.id, f"result of {each.name}") for each in reply.message.tool_calls]
            if turn == 2:
                messages.append(Message(role="user", content="thanks"))
        assert upstream.refusals == []
        contents = upstream.bodies[3]["contents"]
    assert reply.message.content == "You are welcome."
    assert [content["role"] for content in contents] == ["user", "model"] * 3 + ["user"]
    assert [content["parts"] for content in contents if content["role"] == "model"] == [
        list(message.native) for message in messages[:-1] if message.role == "assistant"
    ]
    assert all("id" in part["functionCall"] for part in contents[1]["parts"] if "functionCall" in part) is call_ids
    assert [part["functionResponse"]["name"] for part in contents[2]["parts"]] == ["find", "freeze"]
    assert len({each.id for message in messages for each in message.tool_calls}) == 3


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda part: {**part, "thoughtSignature": "c3Rvbl4="}, "Corrupted thought signature"),
        (lambda part: {**part, "functionCall": {"name": "find", "args": {"id": 9}}}, "Corrupted thought signature"),
    ],
)
async def test_what_was_signed_and_changed_is_refused_by_the_upstream(spoil: Any, words: str) -> None:
    async with wired([call("find", {"id": 1}), say("ok")], wire=GeminiWire(call_ids=False)) as (provider, _):
        message = (await provider.complete(HELLO)).message
        spoiled = replace(message, native=tuple(map(spoil, message.native)))
        with pytest.raises(ProviderRejectedError, match=words):
            await provider.complete(asking(USER, spoiled, result(message.tool_calls[0].id)))


async def test_a_call_that_the_model_left_unsigned_goes_back_under_the_stand_in() -> None:
    unsigned = answer({"functionCall": {"name": "find", "args": {}}}, finish="STOP")
    async with wired([Events([unsigned]), say("ok")]) as (provider, upstream):
        message = (await provider.complete(HELLO)).message
        await provider.complete(asking(USER, message, result(message.tool_calls[0].id)))
        assert upstream.bodies[1]["contents"][1]["parts"][0]["thoughtSignature"] == UNSIGNED


@both_ways
async def test_calls_go_back_under_the_ids_that_they_were_given_since(stream: bool) -> None:
    async with wired([calls(("find", {}), ("find", {"id": 2}), ids=("same", "same")), say("ok")]) as (
        provider,
        upstream,
    ):
        message = (await asked(provider, stream)).message
        renamed = tuple(replace(each, id=f"new{at}") for at, each in enumerate(message.tool_calls))
        message = replace(message, tool_calls=renamed)
        await asked(provider, stream, asking(USER, message, result("new0", "a"), result("new1", "b")))
        model, results = upstream.bodies[1]["contents"][1:]
    assert [part["functionCall"]["id"] for part in model["parts"] if "functionCall" in part] == ["new0", "new1"]
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["new0", "new1"]


async def test_calls_that_somebody_changed_are_sent_as_they_are_now() -> None:
    async with wired([calls(("find", {}), ("freeze", {})), say("ok")]) as (provider, upstream):
        message = (await provider.complete(HELLO)).message
        fewer = replace(message, tool_calls=message.tool_calls[1:])
        await provider.complete(asking(USER, fewer, result(message.tool_calls[1].id)))
        assert upstream.bodies[1]["contents"][1]["parts"] == [
            {"functionCall": {"name": "freeze", "args": {}}, "thoughtSignature": UNSIGNED}
        ]


async def test_pieces_of_text_are_one_part_and_signed_ones_stay_apart() -> None:
    pieces = [
        answer({"text": "hm", "thought": True}),
        answer({"text": "m", "thought": True}, {"text": "a"}),
        answer({"text": "b"}),
        answer({"text": "c", "thoughtSignature": "c2ln"}),
        answer({"text": "d"}),
        answer({"text": ""}, finish="STOP"),
    ]
    async with wired([Events(pieces)]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.message.content == "abcd"
    assert reply.message.native == (
        {"text": "hmm", "thought": True},
        {"text": "ab"},
        {"text": "c", "thoughtSignature": "c2ln"},
        {"text": "d"},
    )


@both_ways
async def test_parts_of_kinds_to_come_are_kept_and_pictures_are_content(stream: bool) -> None:
    parts = (
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"hologram": {"x": 1}},
    )
    events = [answer(part, finish="STOP") for part in parts] if stream else [answer(*parts, finish="STOP")]
    async with wired([Events(events)]) as (provider, _):
        message = (await asked(provider, stream)).message
    assert message.native == parts
    assert message.content == (Text(text="see"), Image(data=PIXEL, mime_type="image/png"))


@both_ways
async def test_of_several_candidates_the_first_is_the_answer(stream: bool) -> None:
    second = {"content": {"parts": [{"text": "second"}]}, "finishReason": "STOP", "index": 1}
    first = {"content": {"parts": [{"text": "first"}]}, "finishReason": "STOP", "index": 0}
    script = [Events([{"candidates": [second, first]}])]
    if stream:
        script = [Events([{"candidates": [second]}, {"candidates": [first]}])]
    async with wired(script) as (provider, _):
        assert (await asked(provider, stream)).message.content == "first"


@both_ways
@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("CONTINUATION", "length"),
        ("TOO_MANY_TOOL_CALLS", "TOO_MANY_TOOL_CALLS"),
        ("A_REASON_TO_COME", "A_REASON_TO_COME"),
    ],
)
async def test_the_reason_to_finish_is_told_in_our_words_where_there_is_one(
    stream: bool, finish: str, expected: str
) -> None:
    async with wired([say("half", finish_reason=finish)]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.finish_reason, reply.message.content) == (expected, "half")


@both_ways
@pytest.mark.parametrize("content", [{"role": "model"}, {}, None])
async def test_an_answer_that_was_stopped_before_its_first_word_says_why(stream: bool, content: Any) -> None:
    stopped = {"candidates": [{"content": content, "finishReason": "MAX_TOKENS"}]}
    async with wired([Events([stopped])]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.finish_reason, reply.message.content) == ("length", "")


@both_ways
async def test_a_blocked_prompt_is_an_answer_without_words_that_was_filtered(stream: bool) -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    async with wired([Events([blocked])]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.finish_reason, reply.message.content, reply.usage.input_tokens) == ("content_filter", "", 3)


@both_ways
@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", ProviderProtocolError),
        ("UNEXPECTED_TOOL_CALL", ProviderProtocolError),
        ("MALFORMED_RESPONSE", ProviderProtocolError),
        ("MISSING_THOUGHT_SIGNATURE", ProviderRejectedError),
        ("PUP_LIMITED_DISABLED", ProviderAuthError),
    ],
)
async def test_a_reason_that_means_there_is_no_answer_is_raised_by_its_name(
    stream: bool, finish: str, kind: type[ProviderError]
) -> None:
    failed = answer(finish=finish, finishMessage="print(find())")
    async with wired([Events([failed])]) as (provider, _):
        with pytest.raises(kind, match=rf"{finish} print\(find"):
            await asked(provider, stream)


@both_ways
async def test_a_call_that_is_no_json_is_a_malformed_one_on_this_wire(stream: bool) -> None:
    async with wired([call("find", '{"id":')]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=r"MALFORMED_FUNCTION_CALL.*find") as raised:
            await asked(provider, stream)
    assert raised.value.retryable


# ---------------------------------------------------------------- requests


async def test_a_request_goes_out_as_it_was_meant() -> None:
    request = ModelRequest(
        model=f"models/{MODEL}",
        messages=(
            Message(role="system", content="be brief"),
            Message(role="developer", content=read_content(({"type": "text", "text": "be kind"},))),
            Message(
                role="user",
                content=read_content(
                    (
                        {"type": "text", "text": "look"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
                    )
                ),
            ),
            called("freeze", arguments='{"id":7}', content="I will."),
            result("c0", "no such id", is_error=True),
            Message(role="system", content="Be quick."),
            Message(role="user", content="and?"),
        ),
        tools=(*TOOLS, {"googleSearch": {}}),
        tool_choice="required",
        params=MappingProxyType({"temperature": 0.5, "max_tokens": 5, "stream": True, "labels": None}),
        headers={"X-Trace": "t", "X-Goog-Api-Key": "stolen", "Host": "evil"},
    )
    async with wired([say("ok")]) as (provider, upstream):
        await provider.complete(request)
    got = upstream.requests[0]
    declared = [
        {"name": name, "description": f"does {name}", "parametersJsonSchema": SCHEMA} for name in ("find", "freeze")
    ]
    assert got.path == f"/v1beta/models/{MODEL}:generateContent"
    assert got.body == {
        "systemInstruction": {"parts": [{"text": "be brief"}, {"text": "be kind"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I will."},
                    {"functionCall": {"name": "freeze", "args": {"id": 7}}, "thoughtSignature": UNSIGNED},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "freeze", "response": {"error": "no such id"}}},
                ],
            },
            {"role": "user", "parts": [{"text": "[System note]\nBe quick."}, {"text": "and?"}]},
        ],
        "tools": [{"functionDeclarations": declared}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 5},
    }
    assert got.headers["x-goog-api-key"] == KEY
    assert got.headers["x-trace"] == "t"
    assert got.headers["host"].startswith("127.0.0.1:")


async def test_the_key_stands_in_no_address_and_a_stream_asks_for_events() -> None:
    seen: list[str] = []

    class Query:
        async def play(self, exchange: Exchange) -> web.StreamResponse:
            seen.append(exchange.request.query_string)
            return await Events([answer({"text": "ok"}, finish="STOP")]).play(exchange)

    async with wired([Query(), Query()]) as (provider, _):
        await provider.complete(HELLO)
        await streamed(provider)
    assert seen == ["", "alt=sse"]


async def test_definitions_that_are_encoded_already_go_out_with_their_schema_byte_for_byte() -> None:
    odd = b'{"type":"object",  "properties": {}}'
    raw = msgspec.Raw(b'{"type":"function","function":{"strict":true,"name":"other","parameters":' + odd + b"}}")
    bare = msgspec.Raw(b'{"type":"function","function":{"name":"bare","parameters":{}}}')
    own = msgspec.Raw(b'{"urlContext":{}}')
    frozen = tool("freeze", parameters=MappingProxyType(SCHEMA), description=None)
    async with wired([say("ok")]) as (provider, upstream):
        await provider.complete(asking(tools=(raw, bare, own, tool("find", parameters=None), frozen)))
    assert odd in upstream.requests[0].raw
    assert upstream.bodies[0]["tools"] == [
        {
            "functionDeclarations": [
                {"name": "other", "parametersJsonSchema": msgspec.json.decode(odd)},
                {"name": "bare"},
                {"name": "find", "description": "does find"},
                {"name": "freeze", "parametersJsonSchema": SCHEMA},
            ]
        },
        {"urlContext": {}},
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "custom", "custom": {"name": "x"}},
        {"type": "function", "function": {"description": "no name"}},
        {"type": "function", "function": "find"},
        msgspec.Raw(b'{"type":"custom","custom":{"name":"x"}}'),
        msgspec.Raw(b'{"type":"function","function":{}}'),
    ],
)
async def test_a_tool_of_another_kind_is_refused_before_it_is_sent(bad: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="tool") as raised:
            await provider.complete(asking(tools=(bad,)))
    assert raised.value.param == "tools"


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def restricted(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


@pytest.mark.parametrize(
    ("choice", "allowed", "expected"),
    [
        (None, None, None),
        ("auto", None, {"mode": "AUTO"}),
        ("none", None, {"mode": "NONE"}),
        ("required", None, {"mode": "ANY"}),
        (named("find"), None, {"mode": "ANY", "allowedFunctionNames": ["find"]}),
        (restricted("auto", "find"), None, {"mode": "VALIDATED", "allowedFunctionNames": ["find"]}),
        (restricted("required", "find"), None, {"mode": "ANY", "allowedFunctionNames": ["find"]}),
        (None, ("find",), {"mode": "VALIDATED", "allowedFunctionNames": ["find"]}),
        ("auto", ("find", "freeze"), {"mode": "VALIDATED", "allowedFunctionNames": ["find", "freeze"]}),
        ("required", ("find",), {"mode": "ANY", "allowedFunctionNames": ["find"]}),
        ("none", ("find",), {"mode": "NONE"}),
        (named("freeze"), ("find",), {"mode": "ANY", "allowedFunctionNames": ["freeze"]}),
        (restricted("auto", "freeze"), ("find",), {"mode": "VALIDATED", "allowedFunctionNames": ["freeze"]}),
        (None, (), {"mode": "NONE"}),
    ],
)
async def test_every_choice_and_mask_is_said_in_the_providers_way(choice: Any, allowed: Any, expected: Any) -> None:
    body = await sent(asking(tools=TOOLS, tool_choice=choice, allowed=allowed))
    assert body.get("toolConfig") == (expected and {"functionCallingConfig": expected})
    assert len(body["tools"][0]["functionDeclarations"]) == 2


@pytest.mark.parametrize("choice", ["auto", "none", None])
async def test_a_choice_among_no_tools_is_not_sent(choice: Any) -> None:
    assert "toolConfig" not in await sent(asking(tool_choice=choice, allowed=("find",)))


@pytest.mark.parametrize("more", [{"output_schema": SCHEMA}, {"tools": (*TOOLS, {"googleSearch": {}})}])
async def test_a_free_choice_is_left_to_the_provider_where_its_default_is_another_mode(more: Any) -> None:
    assert "toolConfig" not in await sent(asking(**{"tools": TOOLS, "tool_choice": "auto", **more}))


@pytest.mark.parametrize(
    ("choice", "allowed"),
    [
        ("any", None),
        (7, None),
        ({}, None),
        ({"type": "function"}, None),
        ({"type": "custom", "custom": {"name": "find"}}, None),
        (restricted("sometimes", "find"), None),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}}, None),
        ("required", ()),
    ],
)
async def test_a_choice_that_means_nothing_is_refused_by_name(choice: Any, allowed: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="tool_choice") as raised:
            await provider.complete(asking(tools=TOOLS, tool_choice=choice, allowed=allowed))
    assert raised.value.param == "tool_choice"


async def test_definitions_cannot_be_held_back() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="does not support deferred definitions"):
            await provider.complete(asking(tools=TOOLS, deferred=frozenset({"find"})))


OUTPUT = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"temperature": 0, "top_p": 0.9, "top_k": 4}, {"temperature": 0, "topP": 0.9, "topK": 4}),
        ({"max_completion_tokens": 9, "seed": 3, "n": 2}, {"maxOutputTokens": 9, "seed": 3, "candidateCount": 2}),
        ({"stop": "END"}, {"stopSequences": ["END"]}),
        ({"stop": ["A", "B"]}, {"stopSequences": ["A", "B"]}),
        ({"presence_penalty": 1, "frequency_penalty": -1}, {"presencePenalty": 1, "frequencyPenalty": -1}),
        ({"logprobs": True, "top_logprobs": 2}, {"responseLogprobs": True, "logprobs": 2}),
        ({"modalities": ["text", "image"]}, {"responseModalities": ["TEXT", "IMAGE"]}),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}, OUTPUT),
        ({"topK": 5, "thinkingConfig": {"thinkingBudget": -1}}, {"topK": 5, "thinkingConfig": {"thinkingBudget": -1}}),
        ({"temperature": 1, "generationConfig": {"temperature": 0.1}}, {"temperature": 0.1}),
        (
            {"parallel_tool_calls": False, "user": "u", "metadata": {}, "stream_options": {}, "prompt_cache_key": "k"},
            None,
        ),
        ({"temperature": None, "stop": None, "seed": None, "reasoning_effort": None}, None),
    ],
)
async def test_parameters_are_translated_and_hints_left_away(params: Mapping[str, Any], expected: Any) -> None:
    body = await sent(asking(params=params))
    assert body.get("generationConfig") == expected
    assert body.keys() - {"generationConfig"} == {"contents"}


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        (MODEL, "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
        (MODEL, "xhigh", {"thinkingLevel": "XHIGH", "includeThoughts": True}),
        (MODEL, "none", {"thinkingLevel": "MINIMAL"}),
        (OLD, "medium", {"thinkingBudget": 8192, "includeThoughts": True}),
        (OLD, "none", {"thinkingBudget": 0}),
    ],
)
async def test_effort_is_a_level_and_for_older_models_a_budget(model: str, effort: str, expected: Any) -> None:
    body = await sent(asking(model=model, params={"reasoning_effort": effort}))
    assert body["generationConfig"] == {"thinkingConfig": expected}


async def test_parameters_of_the_providers_own_go_out_as_they_are() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    params = {
        "safetySettings": safety,
        "cachedContent": "cachedContents/1",
        "service_tier": "flex",
        "store": False,
        "toolConfig": {"retrievalConfig": {}},
    }
    body = await sent(asking(params=params, tools=TOOLS, tool_choice="auto"))
    assert (body["safetySettings"], body["cachedContent"], body["store"]) == (safety, "cachedContents/1", False)
    assert body["serviceTier"] == "flex"
    assert body["toolConfig"] == {"retrievalConfig": {}, "functionCallingConfig": {"mode": "AUTO"}}
    assert "serviceTier" not in await sent(asking(params={"service_tier": "auto"}))


async def test_parameters_that_nobody_knows_are_refused_by_the_provider_by_name() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match='Unknown name "logit_bias"'):
            await provider.complete(asking(params={"logit_bias": {"5": 1}}))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"reasoning_effort": "some"}, "reasoning_effort 'some'"),
        ({"generationConfig": "fast"}, "generationConfig must be an object"),
        ({"toolConfig": ["x"]}, "toolConfig must be an object"),
        ({"response_format": {"type": "grammar"}}, "response_format 'grammar'"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format 'json_schema'"),
    ],
)
async def test_parameters_that_cannot_be_kept_are_refused_before_they_are_sent(params: Any, words: str) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match=words) as raised:
            await provider.complete(asking(params=params, tools=TOOLS, tool_choice="required"))
    assert raised.value.param in params


async def test_a_schema_of_the_answer_goes_out_whatever_format_was_asked_for() -> None:
    request = asking(output_schema=SCHEMA, cache=True, cache_key="k", params={"responseSchema": {"type": "OBJECT"}})
    assert (await sent(request))["generationConfig"] == OUTPUT


# ---------------------------------------------------------------- conversations


def parts_of(*parts: Any) -> Message:
    return Message(role="user", content=read_content(parts))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a.PNG?s=1"}},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/a.PNG?s=1"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a"}},
            {"fileData": {"fileUri": "https://x.example/a"}},
        ),
        (
            {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{PIXEL}"}},
            {"inlineData": {"mimeType": "video/mp4", "data": PIXEL}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
            {"inlineData": {"mimeType": "audio/wav", "data": PIXEL}},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"}},
            {"inlineData": {"mimeType": "application/pdf", "data": PIXEL}},
        ),
        (
            {"type": "file", "file": {"file_id": "https://files.example/v1beta/files/1"}},
            {"fileData": {"fileUri": "https://files.example/v1beta/files/1"}},
        ),
    ],
)
async def test_pictures_sounds_and_files_go_through(part: Any, expected: Any) -> None:
    body = await sent(asking(parts_of({"type": "text", "text": "look"}, part)))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "look"}, expected]}]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (parts_of({"type": "hologram", "hologram": {}}), "type 'hologram'"),
        (parts_of({"text": "no type"}), "type None"),
        (parts_of({"type": "text", "text": 7}), "type 'text'"),
        (parts_of({"type": "image_url", "image_url": {"url": "nowhere"}}), "neither a data: URL nor an address"),
        (parts_of({"type": "image_url", "image_url": {"url": "data:,x"}}), "MIME type"),
        (parts_of({"type": "file", "file": {"file_id": "file-123"}}), "type 'resource'"),
        (Message(role="function", content="x"), "role 'function'"),
        (
            Message(
                role="system",
                content=read_content(({"type": "image_url", "image_url": {"url": "https://x.example/a"}},)),
            ),
            "only text in a system",
        ),
        (result("c9"), "'c9' does not follow"),
        (result(None), "None does not follow"),
    ],
)
async def test_a_message_that_cannot_be_said_is_refused_by_name(message: Message, words: str) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match=words) as raised:
            await provider.complete(asking(message))
    assert raised.value.param == "messages"


async def test_a_second_result_of_one_call_is_refused() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match=r"'c0'.*answers it twice"):
            await provider.complete(asking(USER, called("find"), result("c0"), result("c0")))


GOES_ON = "(The conversation goes on.)"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [USER, USER, Message(role="assistant", content="a"), Message(role="assistant", content="b"), USER],
            [("user", ["hello", "hello"]), ("model", ["a", "b"]), ("user", ["hello"])],
            id="the same side twice",
        ),
        pytest.param(
            [Message(role="assistant", content="welcome"), USER],
            [("user", [GOES_ON]), ("model", ["welcome"]), ("user", ["hello"])],
            id="the model first",
        ),
        pytest.param(
            [USER, called("find"), result("c0", "x"), Message(role="assistant", content="so")],
            [
                ("user", ["hello"]),
                ("model", ["find()"]),
                ("user", ["find: x"]),
                ("model", ["so"]),
                ("user", [GOES_ON]),
            ],
            id="the model last",
        ),
        pytest.param([Message(role="system", content="be kind")], [("user", [GOES_ON])], id="nobody"),
        pytest.param(
            [Message(role="user", content=""), Message(role="assistant", content=""), parts_of()],
            [("user", ["(no text)", "(no text)"])],
            id="no words",
        ),
        pytest.param(
            [USER, called("find", "freeze"), USER, result("c1", "two"), Message(role="developer", content="now")],
            [
                ("user", ["hello"]),
                ("model", ["find()", "freeze()"]),
                ("user", ["find: interrupted", "freeze: two"]),
                ("user", ["hello", "[System note]\nnow"]),
            ],
            id="a result missing, and one late",
        ),
        pytest.param(
            [USER, called("find"), called("freeze"), result("c0", "x")],
            [
                ("user", ["hello"]),
                ("model", ["find()"]),
                ("user", ["find: interrupted"]),
                ("model", ["freeze()"]),
                ("user", ["freeze: x"]),
            ],
            id="a turn that was interrupted",
        ),
    ],
)
async def test_any_order_of_messages_becomes_turns_as_the_provider_wants_them(messages: Any, expected: Any) -> None:
    contents = (await sent(asking(*messages)))["contents"]
    assert [(content["role"], [shown(part) for part in content["parts"]]) for content in contents] == expected


def shown(part: Mapping[str, Any]) -> str:
    if "functionCall" in part:
        return f"{part['functionCall']['name']}()"
    if "functionResponse" in part:
        (said,) = part["functionResponse"]["response"].values()
        return f"{part['functionResponse']['name']}: {'interrupted' if 'was interrupted' in said else said}"
    return str(part["text"])


@pytest.mark.parametrize("model", [MODEL, OLD])
async def test_what_another_provider_wrote_is_taken_over_without_losing_a_call(model: str) -> None:
    theirs = Message(
        role="assistant",
        content="Let me look.",
        tool_calls=(
            ToolCall(id="toolu_01:!" + "x" * 90, name="find", arguments='{"id":1}'),
            ToolCall(id="b", name="freeze", arguments='{"id":'),
            ToolCall(id="c", name="find", arguments="[1]"),
            ToolCall(id="d", name="code", arguments="print(1)", extra={"type": "custom", "custom": {}}),
        ),
        native=({"type": "thinking", "signature": "s"}, {"type": "text", "text": "Let me look."}),
        extra={"reasoning_content": "hm"},
        author="anthropic:claude",
    )
    results = [result(each.id, f"result {at}", is_error=at == 1) for at, each in enumerate(theirs.tool_calls)]
    older = replace(called("find", content="", author=f"gemini:{OLD if model == MODEL else MODEL}"), native=({"x": 1},))
    body = await sent(asking(USER, theirs, *reversed(results), older, result("c0"), model=model, tools=TOOLS))
    _, first, answers, second, last = body["contents"]
    signed = {"thoughtSignature": UNSIGNED} if model == MODEL else {}
    assert first["parts"] == [
        {"text": "Let me look."},
        {"functionCall": {"name": "find", "args": {"id": 1}}, **signed},
        {"functionCall": {"name": "freeze", "args": {"not_an_object": '{"id":'}}},
        {"functionCall": {"name": "find", "args": {"not_an_object": "[1]"}}},
        {"functionCall": {"name": "code", "args": {"input": "print(1)"}}},
    ]
    assert [part["functionResponse"]["response"] for part in answers["parts"]] == [
        {"output": "result 0"},
        {"error": "result 1"},
        {"output": "result 2"},
        {"output": "result 3"},
    ]
    assert second["parts"] == [{"functionCall": {"name": "find", "args": {}}, **signed}]
    assert last["parts"] == [{"functionResponse": {"name": "find", "response": {"output": "ok"}}}]


@pytest.mark.parametrize("model", [MODEL, OLD])
async def test_pictures_of_a_result_stand_in_it_and_for_older_models_after_it(model: str) -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    text = {"type": "text", "text": "a chart"}
    body = await sent(asking(USER, called("find"), result("c0", read_content((text, picture))), model=model))
    blob = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    plain = {"name": "find", "response": {"output": "a chart"}}
    inside, outside = [[{"functionResponse": {**plain, "parts": [blob]}}]], [[{"functionResponse": plain}], [blob]]
    assert [content["parts"] for content in body["contents"][2:]] == (inside if model == MODEL else outside)


async def test_an_older_model_goes_on_with_its_own_last_words() -> None:
    body = await sent(asking(USER, Message(role="assistant", content="Once upon"), model=OLD))
    assert body["contents"][1:] == [{"role": "model", "parts": [{"text": "Once upon"}]}]


async def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() -> None:
    earlier = (Message(role="system", content="s"), USER, called("find"), result("c0"))
    async with wired([say("ok")] * 2) as (provider, upstream):
        await provider.complete(asking(*earlier))
        await provider.complete(asking(*earlier, Message(role="assistant", content="so"), USER))
        short, long = (msgspec.json.encode(body["contents"]) for body in upstream.bodies)
    assert long.startswith(short[:-1])


# ---------------------------------------------------------------- models


@pytest.mark.parametrize(
    "model", ["", "../x", "a/b", "models/a/b", "gemini:evil", "a?key=1", "models/", "a b", "ü", "a%2fb"]
)
async def test_a_model_that_would_be_another_address_is_refused(model: str) -> None:
    async with wired([]) as (provider, upstream):
        with pytest.raises(RequestError, match="not the name of a Gemini model"):
            await provider.complete(asking(model=model))
        with pytest.raises(RequestError, match="not the name of a Gemini model"):
            provider.stream(asking(model=model))
        assert upstream.requests == []


async def test_a_request_without_a_model_asks_the_default_one() -> None:
    async with wired([say("ok")], default_model="gemini-own") as (provider, upstream):
        reply = await provider.complete(asking(model=""))
    assert upstream.requests[0].path == "/v1beta/models/gemini-own:generateContent"
    assert reply.message.author == "gemini:gemini-own"


async def test_models_are_listed() -> None:
    async with wired([]) as (provider, _):
        assert [model["id"] for model in await provider.models()] == ["gpt-test"]


async def listing(pages: Mapping[str, Any]) -> Any:
    """What the provider makes of these pages, by token."""

    async def page(request: web.Request) -> web.Response:
        return web.json_response(pages[request.query.get("pageToken", "")])

    app = web.Application()
    app.router.add_get("/v1beta/models", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider = Gemini(f"http://127.0.0.1:{runner.addresses[0][1]}/v1beta", KEY)
    try:
        return await provider.models()
    finally:
        await provider.close()
        await runner.cleanup()


async def test_all_pages_of_models_are_read_and_those_that_cannot_be_asked_left_out() -> None:
    embeds = {"name": "models/e", "supportedGenerationMethods": ["embedContent"]}
    asks = {"name": "models/b", "supportedGenerationMethods": ["generateContent"]}
    pages = {"": {"models": [{"name": "models/a"}], "nextPageToken": "x&y=1"}, "x&y=1": {"models": [embeds, asks]}}
    assert [model["id"] for model in await listing(pages)] == ["a", "b"]


@pytest.mark.parametrize(
    "page", [{"models": 7}, {"models": [7]}, {"models": [], "nextPageToken": 7}, {"models": [], "nextPageToken": "t"}]
)
async def test_a_list_of_models_that_is_none_or_has_no_end_is_an_error(page: Any) -> None:
    with pytest.raises(ProviderProtocolError, match=r"models|nextPageToken"):
        await listing({"": page, "t": page})


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ProviderRejectedError, False),
        (401, ProviderAuthError, False),
        (403, ProviderAuthError, False),
        (404, ProviderRejectedError, False),
        (408, ProviderUnavailableError, True),
        (409, ProviderUnavailableError, True),
        (429, ProviderRateLimitError, True),
        (499, ProviderRejectedError, False),
        (500, ProviderUnavailableError, True),
        (503, ProviderUnavailableError, True),
        (504, ProviderUnavailableError, True),
    ],
)
@both_ways
async def test_an_error_status_is_raised_as_its_kind_with_what_the_provider_said(
    stream: bool, status: int, kind: type[ProviderError], retryable: bool
) -> None:
    async with wired([refuse(status, "no such luck", code="x9", headers={"retry-after": "7"})]) as (provider, _):
        with pytest.raises(kind, match=f"gemini: no such luck .HTTP {status}.") as raised:
            await asked(provider, stream)
    assert (raised.value.status, raised.value.retryable, raised.value.retry_after) == (status, retryable, 7.0)
    assert msgspec.json.decode(raised.value.body)["error"]["details"][0]["reason"] == "x9"


def error(code: Any, message: str = "no luck", status: Any = "", **detail: Any) -> dict[str, Any]:
    found = {"code": code, "message": message, "status": status}
    return {"error": {**found, "details": [{"@type": "x"}, detail]} if detail else found}


@both_ways
@pytest.mark.parametrize("listed", [False, True], ids=["alone", "in a list"])
async def test_the_wait_that_the_body_names_is_known(stream: bool, listed: bool) -> None:
    body: Any = error(429, "quota", "RESOURCE_EXHAUSTED", retryDelay="36.5s")
    step = garbage(msgspec.json.encode([body] if listed else body), status=429)
    async with wired([step]) as (provider, _):
        with pytest.raises(ProviderRateLimitError, match="gemini: quota") as raised:
            await asked(provider, stream)
    assert raised.value.retry_after == 36.5


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("100000s", 86_400.0), ("nans", None), ("-3s", None), ("soon", None), ("1e9s", None), (7, None), ("٣s", None)],
)
async def test_a_wait_that_nobody_understands_is_none_and_a_day_the_longest(delay: Any, seconds: Any) -> None:
    step = garbage(msgspec.json.encode(error(429, retryDelay=delay)), status=429)
    async with wired([step]) as (provider, _):
        with pytest.raises(ProviderRateLimitError) as raised:
            await provider.complete(HELLO)
    assert raised.value.retry_after == seconds


async def test_a_wrong_key_is_one_though_the_status_does_not_say_so() -> None:
    body = error(400, f"API key not valid: {KEY}", "INVALID_ARGUMENT", reason="API_KEY_INVALID")
    async with wired([garbage(msgspec.json.encode(body), status=400)]) as (provider, _):
        with pytest.raises(ProviderAuthError, match="API key not valid") as raised:
            await provider.complete(HELLO)
    assert raised.value.status == 400
    assert KEY not in f"{raised.value!s} {raised.value.body!r} {provider!r}"


@pytest.mark.parametrize(
    ("said", "kind", "status"),
    [
        (error(503, "overloaded", "UNAVAILABLE"), ProviderUnavailableError, 503),
        (error(429, "overloaded", retryDelay="2s"), ProviderRateLimitError, 429),
        (error(400, "overloaded"), ProviderRejectedError, 400),
        (error("503", "overloaded", "UNAVAILABLE"), ProviderUnavailableError, 503),
        (error(None, "overloaded", "RESOURCE_EXHAUSTED"), ProviderRateLimitError, 429),
        (error(200, "overloaded", "ODD"), ProviderProtocolError, None),
        ({"error": "overloaded"}, ProviderProtocolError, None),
        ([error(503, "overloaded")], ProviderUnavailableError, 503),
        ({**error(503, "overloaded"), "candidates": 7}, ProviderUnavailableError, 503),
    ],
)
@both_ways
async def test_an_error_in_the_place_of_an_answer_is_raised_as_what_it_says(
    stream: bool, said: Any, kind: type[ProviderError], status: Any
) -> None:
    items: list[Any] = []

    async def ask(provider: Gemini) -> None:
        if not stream:
            await provider.complete(HELLO)
        async for item in provider.stream(HELLO):
            items.append(item)  # noqa: PERF401

    async with wired([Events([answer({"text": "he"}), said])]) as (provider, _):
        with pytest.raises(kind, match="gemini stopped with an error: overloaded") as raised:
            await ask(provider)
    assert (type(raised.value), raised.value.status) == (kind, status)
    assert items == ([ModelDelta(text="he")] if stream else [])
    assert raised.value.retry_after == (2.0 if status == 429 and "details" in str(said) else None)


@both_ways
async def test_an_answer_without_a_candidate_is_none(stream: bool) -> None:
    async with wired([empty_choices(), Events([{}]), Events([{"candidates": None}])]) as (provider, _):
        for _ in range(3):
            with pytest.raises(ProviderProtocolError, match="without a candidate"):
                await asked(provider, stream)


@both_ways
@pytest.mark.parametrize("content", [{"role": "model"}, {"parts": []}, None])
async def test_an_answer_without_content_is_none(stream: bool, content: Any) -> None:
    async with wired([Events([{"candidates": [{"content": content, "finishReason": "STOP"}]}])]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match="without any content"):
            await asked(provider, stream)


RICH = replace(calls(("find", {"id": 1}), ("freeze", {}), text="Two at once."), reasoning="First both")


@pytest.mark.parametrize("clean", [True, False], ids=["ended early", "broken connection"])
async def test_a_stream_cut_between_any_two_events_is_an_error(clean: bool) -> None:
    count = len(GeminiWire().events(RICH, answer_id="x", model=MODEL, body={}))
    assert count > 8
    async with wired([cut(RICH, after=after, clean=clean) for after in range(1, count)]) as (provider, _):
        for _ in range(1, count):
            with pytest.raises(ProviderProtocolError, match="cut its"):
                await streamed(provider)


async def test_a_plain_answer_that_was_cut_is_an_error() -> None:
    async with wired([cut(RICH, after=1, clean=True), cut(RICH, after=1)]) as (provider, _):
        for _ in range(2):
            with pytest.raises(ProviderProtocolError, match=r"cut its|not JSON"):
                await provider.complete(HELLO)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>oh</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"[" * 100_000, "unknown shape|not JSON"),
        (b'{"candidates":{}}', "unknown shape.*candidates"),
        (b'{"candidates":[7]}', "unknown shape.*candidates"),
        (b'{"candidates":[{"content":{"parts":"hi"}}]}', "unknown shape.*parts"),
        (b'{"candidates":[{"content":{"parts":["hi"]}}]}', "unknown shape.*parts"),
        (b'{"candidates":[{"content":{"parts":[{"text":7}]}}]}', "unknown shape: a text that is not a string"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":7}]}}]}', "a tool call that is not an object"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]}}]}', "a tool call without a name"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":[]}}]}}]}', "wrong type"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","id":7}}]}}]}', "wrong type"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","willContinue":true}}]}}]}', "in pieces"),
        (b'{"candidates":[{"finishReason":7}]}', "unknown shape.*finishReason"),
        (b'{"candidates":[],"usageMetadata":{"promptTokenCount":"many"}}', "promptTokenCount"),
        (b'{"candidates":[],"usageMetadata":{"thoughtsTokenCount":-1}}', "thoughtsTokenCount"),
    ],
)
@both_ways
async def test_an_answer_that_breaks_the_protocol_is_named_as_such(stream: bool, body: bytes, words: str) -> None:
    kind = "text/event-stream" if stream else "application/json"
    async with wired([garbage(b"data: " + body + b"\n\n" if stream else body, content_type=kind)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await asked(provider, stream)


@both_ways
async def test_an_answer_that_does_not_come_is_unavailable(stream: bool) -> None:
    async with wired([paced(say("late"), asyncio.Semaphore(1 if stream else 0))]) as (provider, upstream):
        with pytest.raises(ProviderUnavailableError, match="in time"):
            await asked(provider, stream, asking(timeout=0.05))
        await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "client left"


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_leaving_a_stream_closes_the_connection_to_the_provider(how: str) -> None:
    async with wired([endless()]) as (provider, upstream):
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
        else:
            async with aclosing(provider.stream(HELLO)) as stream:  # type: ignore[type-var]
                await anext(stream)
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


async def test_connections_are_used_again_also_after_a_stream() -> None:
    async with wired(lambda _: say("ok")) as (provider, upstream):
        for _ in range(3):
            await provider.complete(HELLO)
            await streamed(provider)
        assert len({request.peer for request in upstream.requests}) == 1


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "'gemini' needs a key"),
        ({"base_url": "ftp://x"}, "must begin with http"),
        ({"api_key": "AIza\n"}, "copy the key again"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        from_settings(**settings)
    assert "AIza" not in str(refused.value)


async def test_settings_make_a_provider_that_works_again_after_it_was_closed() -> None:
    async with ScriptedUpstream(lambda _: say("hi"), api_key=None, wire=GeminiWire()) as upstream:
        provider = from_settings(base_url=f"{upstream.base_url}/", api_key=None, model=MODEL, name="mine")
        for _ in range(2):
            assert (await provider.complete(asking(model=""))).message.author == f"mine:{MODEL}"
            await provider.close()


# ---------------------------------------------------------------- how strict the upstream is


def turn(role: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


SAID = turn("user", {"text": "hello"})
CALLED = turn("model", {"functionCall": {"name": "find", "args": {}}, "thoughtSignature": UNSIGNED})
ANSWERED = turn("user", {"functionResponse": {"name": "find", "response": {"output": "x"}}})
DECLARED = {"name": "find", "parametersJsonSchema": SCHEMA}
OFFERED = {"tools": [{"functionDeclarations": [DECLARED]}]}


def config(**fields: Any) -> dict[str, Any]:
    return {"contents": [SAID], "generationConfig": fields}


def declaring(*declarations: Any, **more: Any) -> dict[str, Any]:
    return {"contents": [SAID], "tools": [{"functionDeclarations": list(declarations)}], **more}


def calling(**fields: Any) -> dict[str, Any]:
    return {"contents": [SAID], **OFFERED, "toolConfig": {"functionCallingConfig": fields}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "Expected an object"),
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": [SAID], "tool_choice": "auto"}, 'Unknown name "tool_choice"'),
        ({"contents": [SAID], "systemInstruction": {"parts": []}}, "system_instruction"),
        ({"contents": [turn("assistant", {"text": "x"})]}, "valid role"),
        ({"contents": [turn("user")]}, "must not be empty"),
        ({"contents": [turn("user", {"text": ""})]}, "not empty"),
        ({"contents": [turn("user", {"text": 7})]}, "Invalid value"),
        ({"contents": [turn("user", {"text": "x", "inlineData": {}})]}, "oneof field 'data'"),
        ({"contents": [turn("user", {"image": "x"})]}, 'Unknown name "image"'),
        ({"contents": [turn("user", {"inlineData": {"data": PIXEL}})]}, "mime_type"),
        ({"contents": [turn("user", {"inlineData": {"mimeType": "a/b", "data": "!"}})]}, "Base64"),
        ({"contents": [turn("user", {"fileData": {}})]}, "file_uri"),
        ({"contents": [SAID, SAID]}, "alternate"),
        (config(thinking_config={"thinking_budget": 1, "thinking_level": "LOW"}), "only set only one"),
        ({"contents": [turn("model", {"text": "x"})]}, "alternate"),
        ({"contents": [SAID, CALLED, SAID]}, "number of function response parts"),
        ({"contents": [SAID, CALLED]}, "number of function response parts"),
        ({"contents": [SAID, turn("model", {"text": "x"})]}, "ending with a model turn"),
        ({"contents": [SAID, CALLED, turn("user", *ANSWERED["parts"], {"text": "x"})]}, "nothing but"),
        ({"contents": [ANSWERED]}, "immediately after a function call turn"),
        ({"contents": [SAID, turn("model", {"text": "x"}), ANSWERED]}, "immediately after a function call turn"),
        (
            {"contents": [SAID, turn("model", {"functionCall": {"name": "find", "args": "{}"}}), ANSWERED]},
            "function_call.args",
        ),
        ({"contents": [SAID, turn("model", {"functionCall": {"name": "find"}}), ANSWERED]}, "missing a `thought_sig"),
        (
            {"contents": [SAID, turn("model", {"functionCall": {"name": "x"}, "thoughtSignature": "YQ=="}), ANSWERED]},
            "match their calls",
        ),
        ({"contents": [SAID, turn("model", {"text": "x", "thoughtSignature": UNSIGNED}), SAID]}, "Corrupted"),
        ({"contents": ["hello"]}, "contents[0]"),
        ({"contents": [turn("user", "hello")]}, "parts[0]"),  # type: ignore[arg-type]
        ({"contents": [turn("user", CALLED["parts"][0])]}, "in turns of role model"),
        ({"contents": [SAID, turn("model", {"functionCall": {}})]}, "function_call.name"),
        ({"contents": [SAID, turn("model", ANSWERED["parts"][0])]}, "in turns of role user"),
        ({"contents": [turn("user", {"functionResponse": {}})]}, "function_response.name"),
        ({"contents": [turn("user", {"functionResponse": {"name": "a"}})]}, "function_response.response"),
        (
            {"contents": [turn("user", {"functionResponse": {"name": "a", "response": {}, "parts": [{"text": "x"}]}})]},
            "function_response.parts",
        ),
        ({"contents": [SAID], "tools": "find"}, "Invalid value at 'tools'"),
        (declaring({"name": "a", "description": 7}), "description"),
        (config(temperature=3), "temperature value of 3"),
        (config(temperature="0"), "generation_config.temperature"),
        (config(max_tokens=3), 'Unknown name "max_tokens"'),
        (config(maxOutputTokens=0), "not positive"),
        (config(candidateCount=9), "from 1 to 8"),
        (config(stopSequences=list("abcdef")), "at most 5"),
        (config(responseJsonSchema=SCHEMA), "needs response_mime_type"),
        (config(**OUTPUT, responseSchema={}), "Only one of"),
        (config(thinkingConfig={"thinkingLevel": "LOW", "thinkingBudget": 1}), "only set only one"),
        (config(thinkingConfig={"thinkingLevel": "SOME"}), "thinking_level"),
        (declaring({"name": "7up"}), "Invalid function name"),
        (declaring({"name": "x" * 129}), "Invalid function name"),
        (declaring(DECLARED, DECLARED), "Duplicate function declaration found: find"),
        (declaring({**DECLARED, "parameters": {}}), "only one of parameters"),
        (declaring({"name": "a", "parametersJsonSchema": {}}), "should be of type object"),
        (declaring({"name": "a", "strict": True}), 'Unknown name "strict"'),
        (declaring(*({"name": f"t{at}"} for at in range(513))), "exceeds the maximum of 512"),
        ({"contents": [SAID], "tools": [{}]}, "tool_type"),
        ({"contents": [SAID], "tools": [{"type": "function"}]}, 'Unknown name "type"'),
        (calling(mode="SOMETIMES"), "mode"),
        (calling(mode="AUTO", allowedFunctionNames=["find"]), "only be set when"),
        (calling(mode="ANY", allowedFunctionNames=["freeze"]), "'freeze', which is not among"),
        (
            {"contents": [SAID], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
            "without function_declarations",
        ),
    ],
)
def test_the_upstream_refuses_in_the_providers_words(body: Any, words: str) -> None:
    refused = GeminiWire().refusal_of(f"/v1beta/models/{MODEL}:generateContent", body)
    assert refused is not None
    assert words in refused["error"]["message"]
    assert (refused["error"]["code"], refused["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"contents": [SAID, CALLED, ANSWERED]}, "Corrupted"),
        (config(thinkingConfig={"thinkingLevel": "LOW"}), "not supported for this model"),
        ({**config(**OUTPUT), **OFFERED}, "Function calling with a response mime type"),
    ],
)
def test_the_upstream_knows_what_older_models_refuse(body: Any, words: str) -> None:
    path = "/v1beta/models/{}:generateContent"
    refused = GeminiWire().refusal_of(path.format(OLD), body)
    assert refused is not None
    assert words in refused["error"]["message"]
    assert GeminiWire().refusal_of(path.format(MODEL), body) is None


# ---------------------------------------------------------------- beside the official package


def official(upstream: ScriptedUpstream) -> genai.Client:
    root = upstream.base_url.removesuffix("/v1beta")
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=root, api_version="v1beta"))


CONVERSATION = asking(
    Message(role="system", content="be brief"),
    parts_of(
        {"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    ),
    called("find", "freeze", arguments='{"id":1}', content="Both."),
    result("c0", "one"),
    result("c1", "two", is_error=True),
    tools=TOOLS,
    tool_choice="required",
    allowed=("find",),
    params={"temperature": 0.5, "top_p": 0.25, "max_tokens": 50, "stop": "END", "seed": 7, "reasoning_effort": "low"},
    output_schema=SCHEMA,
)


async def test_the_official_package_sends_what_we_send() -> None:
    """Its own classes for the settings; the contents, as their types read them."""
    async with wired([say("{}"), say("{}")]) as (provider, upstream):
        await provider.complete(CONVERSATION)
        ours = upstream.bodies[0]
        declared = [
            types.FunctionDeclaration(name=name, description=f"does {name}", parameters_json_schema=SCHEMA)
            for name in ("find", "freeze")
        ]
        await official(upstream).aio.models.generate_content(
            model=MODEL,
            contents=[types.Content.model_validate(content) for content in ours["contents"]],
            config=types.GenerateContentConfig(
                system_instruction=types.Content(parts=[types.Part(text="be brief")]),
                tools=[types.Tool(function_declarations=declared)],
                tool_config=types.ToolConfig(
                    function_calling_config=types.FunctionCallingConfig(
                        mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["find"]
                    )
                ),
                temperature=0.5,
                top_p=0.25,
                max_output_tokens=50,
                stop_sequences=["END"],
                seed=7,
                thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW, include_thoughts=True),
                response_mime_type="application/json",
                response_json_schema=SCHEMA,
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            ),
        )
        theirs = upstream.bodies[1]
        assert upstream.refusals == []
        assert upstream.requests[0].path == upstream.requests[1].path
    theirs["systemInstruction"].pop("role", None)
    assert camelled(theirs) == ours


def camelled(value: Any) -> Any:
    """The package says some names in snake case, which the provider takes as well."""
    if isinstance(value, list):
        return list(map(camelled, value))
    if not isinstance(value, dict):
        return value
    return {
        name[0] + name.title().replace("_", "")[1:] if "_" in name else name: camelled(v) for name, v in value.items()
    }


@pytest.mark.parametrize("model", [MODEL, OLD])
async def test_what_we_send_is_what_the_official_types_take(model: str) -> None:
    request = replace(CONVERSATION, model=model, output_schema=None)
    body = await sent(request)
    for content in [*body["contents"], body["systemInstruction"]]:
        types.Content.model_validate(content)
    for each in body["tools"]:
        types.Tool.model_validate(each)
    types.ToolConfig.model_validate(body["toolConfig"])
    types.GenerationConfig.model_validate(body["generationConfig"])


async def test_the_official_package_reads_what_the_upstream_answers() -> None:
    scripted: Reply = replace(RICH, usage=Usage(input_tokens=9, output_tokens=8, cached_tokens=3, reasoning_tokens=2))
    async with wired([scripted, scripted, say("hi")]) as (_, upstream):
        client = official(upstream).aio.models
        whole = await client.generate_content(model=MODEL, contents="hello")
        types.GenerateContentResponse.model_validate_json(whole.model_dump_json())
        assert [each.name for each in whole.function_calls or ()] == ["find", "freeze"]
        assert whole.usage_metadata is not None
        assert whole.usage_metadata.total_token_count == 17
        chunks = [chunk async for chunk in await client.generate_content_stream(model=MODEL, contents="hello")]
        assert len(chunks) > 8
        assert [each.name for chunk in chunks for each in chunk.function_calls or ()] == ["find", "freeze"]
        last = (chunks[-1].candidates or [])[0]
        assert last.finish_reason is types.FinishReason.STOP
        assert (await client.generate_content(model=MODEL, contents="hello")).text == "hi"


@pytest.mark.parametrize("reply", [RICH, say("hi"), say(""), call("find", "no json"), say("x", finish_reason="length")])
def test_what_the_upstream_answers_is_what_the_official_types_know(reply: Reply) -> None:
    wire = GeminiWire()
    answers = [wire.whole(reply, answer_id="x", model=MODEL)]
    answers += map(msgspec.json.decode, wire.events(reply, answer_id="x", model=MODEL, body={}))
    for each in [*answers, wire.empty(answer_id="x", model=MODEL)]:
        types.GenerateContentResponse.model_validate(each)
