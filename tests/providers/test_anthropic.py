"""The Anthropic provider, over real sockets: against the strict upstream, and against every broken one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcaddie.core.content import Image
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
from toolcaddie.providers.anthropic import Anthropic, from_settings
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
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.wires.chat.content import read_content
from toolcaddie.wires.messages.requests import write_request
from toolcaddie.wires.messages.tools import WireTools

pytestmark = pytest.mark.anyio

KEY = "sk-ant-0123456789"
MODEL = "claude-test"
USER = Message(role="user", content="hello")
HELLO = ModelRequest(model=MODEL, messages=(USER,))
WORDS = {"type": "text", "text": "hello"}
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
NEVER = "claude-opus-5-5"
"""A model that takes no forced choice."""


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": SCHEMA, **more}}


FREEZE, PAUSE, FIND = tool("freeze"), tool("pause"), tool("find")


@asynccontextmanager
async def wired(
    script: Any, *, wire: AnthropicWire | None = None, **options: Any
) -> AsyncIterator[tuple[Anthropic, ScriptedUpstream]]:
    async with ScriptedUpstream(script, api_key=KEY, wire=wire or AnthropicWire()) as upstream:
        provider = Anthropic(upstream.base_url, KEY, **options)
        try:
            yield provider, upstream
        finally:
            await provider.close()


async def streamed(provider: Anthropic, request: ModelRequest = HELLO) -> tuple[list[ModelDelta], ModelReply]:
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return [item for item in items if isinstance(item, ModelDelta)], items[-1]


async def asked(provider: Anthropic, stream: bool, request: ModelRequest = HELLO) -> ModelReply:
    return (await streamed(provider, request))[1] if stream else await provider.complete(request)


async def sent(request: ModelRequest, *, wire: AnthropicWire | None = None, **options: Any) -> Any:
    """The body that goes out for a request; the strict upstream took it."""
    async with wired([say("ok")], wire=wire, **options) as (provider, upstream):
        await provider.complete(request)
        return upstream.bodies[0]


both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@dataclass(frozen=True)
class Events:
    """A step: these events, and the end of the body."""

    events: Sequence[bytes]

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        for event in self.events:
            await exchange.send_event(event)
        return await exchange.end()


def start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


BEGUN = {"type": "message_start", "message": {"content": [], "model": "m", "usage": {"input_tokens": 5}}}
ENDED = {"type": "message_stop"}


def because(reason: str | None = "end_turn", **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7, **usage}}


def events(*made: dict[str, Any]) -> Events:
    return Events([msgspec.json.encode(event) for event in made])


def whole(*blocks: Any, **fields: Any) -> Any:
    """A step: a plain answer of these blocks."""
    return garbage(
        msgspec.json.encode({"type": "message", "content": list(blocks), "stop_reason": "end_turn", **fields})
    )


def result(call_id: str, content: Any = "done", **fields: Any) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=content, **fields)


def asks(*wanted: tuple[str, str], arguments: str = "{}", **fields: Any) -> Message:
    made = tuple(ToolCall(id=call_id, name=name, arguments=arguments) for call_id, name in wanted)
    return Message(role="assistant", tool_calls=made, **fields)


# ---------------------------------------------------------------- answers


@both_ways
async def test_words_come_back(stream: bool) -> None:
    async with wired([say("Grüße \u2028 you")]) as (provider, upstream):
        reply = await asked(provider, stream)
        assert upstream.requests[0].headers["anthropic-version"] == "2023-06-01"
        assert upstream.requests[0].headers["x-api-key"] == KEY
        assert "authorization" not in upstream.requests[0].headers
    assert reply.message.content == "Grüße \u2028 you"
    assert reply.message.author == f"anthropic:{MODEL}"
    assert (reply.finish_reason, reply.model) == ("stop", MODEL)
    assert reply.raw is not None
    assert reply.raw.wire == "messages"
    assert {name: reply.raw.fields[name] for name in reply.raw.fields if name != "usage"} == {
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
    assert (reply.raw.fields["usage"]["input_tokens"], reply.raw.fields["usage"]["output_tokens"]) == (100, 10)


@both_ways
async def test_an_answer_of_no_words_is_an_answer(stream: bool) -> None:
    async with wired([say("")]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.message.content, reply.message.tool_calls, reply.finish_reason) == ("", (), "stop")


@both_ways
async def test_four_calls_at_once_come_back_in_their_order(stream: bool) -> None:
    wanted = [("freeze", {"x": "ä"}), ("pause", None), ("freeze", {"x": [1, {"y": None}]}), ("find", {"q": '\\"'})]
    async with wired([calls(*wanted, text="all four")]) as (provider, _):
        reply = await asked(provider, stream)
    assert reply.message.content == "all four"
    assert [(each.id, each.name, msgspec.json.decode(each.arguments)) for each in reply.message.tool_calls] == [
        (f"call_1_{place}", name, arguments or {}) for place, (name, arguments) in enumerate(wanted)
    ]
    assert reply.finish_reason == "tool_calls"


async def test_a_stream_comes_piece_by_piece() -> None:
    reply = replace(call("freeze", {"member": "John"}, text="One moment"), reasoning="He wants a pause.")
    async with wired([reply]) as (provider, _):
        deltas, whole_reply = await streamed(provider)
    texts = [delta.text for delta in deltas if delta.text]
    assert len(texts) > 1
    assert "".join(texts) == "One moment"
    thoughts = [delta.reasoning for delta in deltas if delta.reasoning]
    assert len(thoughts) > 1
    assert "".join(thoughts) == "He wants a pause."
    pieces = [each for delta in deltas for each in delta.calls]
    assert pieces[0] == CallDelta(index=0, id="call_1_0", name="freeze")
    assert {each.index for each in pieces} == {0}
    arguments = whole_reply.message.tool_calls[0].arguments
    assert "".join(each.arguments for each in pieces) == arguments == '{"member":"John"}'


async def test_arguments_may_be_split_at_every_byte() -> None:
    arguments = msgspec.json.encode({"ä": '\u2028"\\', "n": [1.5, None, {}]}).decode()
    step = events(
        BEGUN,
        start(0, {"type": "tool_use", "id": "t1", "name": "freeze", "input": {}}),
        *(piece(0, "input_json_delta", partial_json=letter) for letter in arguments),
        stop(0),
        because("tool_use"),
        ENDED,
    )
    async with wired([step]) as (provider, _):
        deltas, reply = await streamed(provider)
    assert "".join(each.arguments for delta in deltas for each in delta.calls) == arguments
    assert reply.message.tool_calls == (ToolCall(id="t1", name="freeze", arguments=arguments),)
    assert reply.message.native[0]["input"] == msgspec.json.decode(arguments)


async def test_a_stream_cut_into_single_bytes_reads_the_same() -> None:
    @dataclass(frozen=True)
    class Dripped:
        async def play(self, exchange: Exchange) -> web.StreamResponse:
            said = b"".join(map(exchange.wire.block, exchange.events(say("grüße"))))
            for byte in said.replace(b"\n", b"\r\n"):
                await exchange.send_bytes(bytes([byte]))
            return await exchange.end()

    async with wired([Dripped()]) as (provider, _):
        assert (await asked(provider, True)).message.content == "grüße"


@both_ways
async def test_usage_counts_what_the_cache_read_and_wrote_as_input(stream: bool) -> None:
    usage = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, written_tokens=30, reasoning_tokens=5)
    async with wired([Reply(text="hi", usage=usage)]) as (provider, _):
        assert (await asked(provider, stream)).usage == usage


async def test_what_a_stream_says_last_of_its_usage_counts() -> None:
    step = events(BEGUN, start(0, WORDS), stop(0), because(input_tokens=9, cache_read_input_tokens=2), ENDED)
    async with wired([step]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.usage == Usage(input_tokens=11, output_tokens=7, cached_tokens=2)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("a_reason_to_come", "a_reason_to_come"),
        (None, "stop"),
    ],
)
@both_ways
async def test_why_an_answer_ended_is_said_in_everybodys_words(stream: bool, reason: str | None, finish: str) -> None:
    step = (
        events(BEGUN, start(0, WORDS), stop(0), because(reason), ENDED) if stream else whole(WORDS, stop_reason=reason)
    )
    async with wired([step]) as (provider, _):
        assert (await asked(provider, stream)).finish_reason == finish


@both_ways
async def test_two_calls_with_one_id_are_two_calls(stream: bool) -> None:
    async with wired([calls(("freeze", {"a": 1}), ("freeze", {"a": 2}), ids=("t", "t"))]) as (provider, _):
        reply = await asked(provider, stream)
    assert [(each.id, each.arguments) for each in reply.message.tool_calls] == [("t", '{"a":1}'), ("t", '{"a":2}')]


@both_ways
async def test_a_call_without_an_id_is_given_one(stream: bool) -> None:
    block = {"type": "tool_use", "name": "freeze", "input": {"a": 1}}
    step = events(BEGUN, start(0, block), stop(0), because("tool_use"), ENDED) if stream else whole(block)
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    (made,) = reply.message.tool_calls
    assert made.id
    assert (made.name, made.arguments) == ("freeze", '{"a":1}')
    assert reply.message.native[0]["id"] == made.id


async def test_arguments_that_come_with_the_start_of_a_call_are_streamed_too() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "freeze", "input": {"a": 1}}
    async with wired([events(BEGUN, start(0, block), stop(0), because("tool_use"), ENDED)]) as (provider, _):
        deltas, reply = await streamed(provider)
    assert [each for delta in deltas for each in delta.calls] == [
        CallDelta(index=0, id="t1", name="freeze"),
        CallDelta(index=0, arguments='{"a":1}'),
    ]
    assert reply.message.tool_calls[0].arguments == '{"a":1}'


@both_ways
async def test_blocks_of_every_kind_are_kept_in_their_order(stream: bool) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result"}]}
    odd = {"type": "kind_to_come", "of": {"a": [1]}}
    text = {"type": "text", "text": "hello", "citations": [{"cited_text": "x"}]}
    wanted = {"type": "tool_use", "id": "t1", "name": "freeze", "input": {"id": 7}}
    step = whole(search, found, odd, text, wanted)
    if stream:
        step = events(
            BEGUN,
            start(0, {**search, "input": {}}),
            piece(0, "input_json_delta", partial_json='{"query":'),
            piece(0, "input_json_delta", partial_json='"x"}'),
            stop(0),
            start(1, found),
            stop(1),
            {"type": "ping"},
            {"type": "event_to_come", "index": "not even a number", "delta": 7},
            start(2, odd),
            stop(2),
            start(3, {"type": "text", "text": ""}),
            piece(3, "text_delta", text="hel"),
            piece(3, "citations_delta", citation={"cited_text": "x"}),
            piece(3, "text_delta", text="lo"),
            stop(3),
            start(4, {**wanted, "input": {}}),
            piece(4, "input_json_delta", partial_json='{"id":7}'),
            stop(4),
            because("tool_use"),
            ENDED,
        )
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    assert list(reply.message.native) == [search, found, odd, text, wanted]
    assert reply.message.content == "hello"
    assert reply.message.tool_calls == (ToolCall(id="t1", name="freeze", arguments='{"id":7}'),)


async def test_a_block_that_grew_in_a_way_we_do_not_know_is_left_out() -> None:
    step = events(
        BEGUN,
        start(0, {"type": "kind_to_come"}),
        piece(0, "delta_to_come", grown="x"),
        stop(0),
        start(1, WORDS),
        stop(1),
        because(),
        ENDED,
    )
    async with wired([step]) as (provider, _):
        _, reply = await streamed(provider)
    assert list(reply.message.native) == [WORDS]


async def test_models_are_listed_as_everybody_lists_them() -> None:
    async with wired([]) as (provider, _):
        listed = await provider.models()
    assert listed == [{"id": "gpt-test", "object": "model", "created": 1_770_163_200, "owned_by": "anthropic"}]


@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/"])
async def test_the_address_may_have_its_version_or_not(suffix: str) -> None:
    async with ScriptedUpstream([say("hi")], api_key=None, wire=AnthropicWire()) as upstream:
        provider = from_settings(base_url=upstream.base_url.removesuffix("/v1") + suffix, model=MODEL)
        assert (await provider.complete(replace(HELLO, model=""))).message.content == "hi"
        await provider.close()
        assert upstream.bodies[0]["model"] == MODEL


# ---------------------------------------------------------------- rounds


async def a_round(provider: Anthropic, request: ModelRequest, stream: bool, *results: str) -> ModelRequest:
    """The request of the next round: with the answer, and the results of its calls."""
    reply = await asked(provider, stream, request)
    given = [result(each.id, text) for each, text in zip(reply.message.tool_calls, results, strict=True)]
    return replace(request, messages=(*request.messages, reply.message, *given))


@pytest.mark.parametrize("redacts", [False, True], ids=["shown", "redacted"])
@both_ways
async def test_thoughts_come_back_as_they_were_signed_over_several_rounds(stream: bool, redacts: bool) -> None:
    script = [
        replace(calls(("find", {"id": 1}), ("find", {"id": 2}), text="Looking"), reasoning="first this"),
        replace(call("freeze", {"id": 1}), reasoning="then that"),
        replace(say("Done."), reasoning="so it is"),
    ]
    request = replace(HELLO, tools=(FREEZE, FIND), params=BUDGET)
    async with wired(script, wire=AnthropicWire(redacts=redacts)) as (provider, upstream):
        request = await a_round(provider, request, stream, "one", "two")
        request = await a_round(provider, request, stream, "frozen")
        request = await a_round(provider, request, stream)
        assert upstream.refusals == []
        messages = upstream.bodies[-1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    kind = "redacted_thinking" if redacts else "thinking"
    assert [block["type"] for block in messages[1]["content"]] == [kind, "text", "tool_use", "tool_use"]
    assert [block["type"] for block in messages[3]["content"]] == [kind, "tool_use"]
    assert [block["content"][0]["text"] for block in messages[2]["content"]] == ["one", "two"]
    assert request.messages[-1].text == "Done."


async def test_a_thought_that_was_changed_is_refused() -> None:
    async with wired([replace(call("freeze"), reasoning="hm")]) as (provider, _):
        request = await a_round(provider, replace(HELLO, tools=(FREEZE,), params=BUDGET), False, "ok")
        user, answer, given = request.messages
        thought, *others = answer.native
        changed = replace(answer, native=({**thought, "thinking": "other"}, *others))
        with pytest.raises(ProviderRejectedError, match="Invalid `signature`"):
            await provider.complete(replace(request, messages=(user, changed, given)))


async def test_a_renamed_call_goes_back_in_its_authors_blocks_under_its_new_id() -> None:
    script = [replace(calls(("freeze", {"id": 1}), ("pause", {"id": 2}), ids=("t", "t")), reasoning="hm"), say("ok")]
    async with wired(script) as (provider, upstream):
        reply = await provider.complete(HELLO)
        first, second = reply.message.tool_calls
        renamed = replace(reply.message, tool_calls=(first, replace(second, id="new one")))
        messages = (USER, renamed, result("new one", "2"), result("t", "1"))
        await provider.complete(replace(HELLO, messages=messages, tools=(FREEZE, PAUSE)))
        _, answer, given = upstream.bodies[-1]["messages"]
    ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    assert answer["content"][0]["type"] == "thinking"
    assert ids[0] == "t"
    assert [block["tool_use_id"] for block in given["content"]] == [ids[1], "t"]
    assert [block["name"] for block in answer["content"][1:]] == ["freeze", "pause"]


async def test_a_turn_of_another_author_is_told_in_its_words_calls_and_results() -> None:
    foreign = asks(
        ("chat.call/1", "freeze"), ("a" * 90, "find.it"), arguments='{"id": 12345678901234567890123}',
        content="Two things", native=({"thoughtSignature": "x"},), author="gemini:g", extra={"reasoning_content": "hm"},
    )  # fmt: skip
    history = (USER, foreign, result("a" * 90, "second"), result("chat.call/1", "first", is_error=True))
    async with wired([say("ok")]) as (provider, upstream):
        await provider.complete(replace(HELLO, messages=history, tools=(FREEZE,), params=BUDGET))
        body = upstream.bodies[0]
        raw = upstream.requests[0].raw
    _, answer, given = body["messages"]
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["name"] for block in answer["content"][1:]] == ["freeze", "find_it"]
    assert b'"input":{"id": 12345678901234567890123}' in raw
    one, two = (block["id"] for block in answer["content"][1:])
    assert given["content"] == [
        {"type": "tool_result", "tool_use_id": two, "content": [{"type": "text", "text": "second"}]},
        {
            "type": "tool_result",
            "tool_use_id": one,
            "content": [{"type": "text", "text": "first"}],
            "is_error": True,
        },
    ]
    assert body["thinking"] == {"type": "disabled"}, "a budget wants a thought before the calls, and there is none"


async def test_the_ids_of_a_conversation_are_the_same_in_every_request_and_never_repeat() -> None:
    history = (
        USER,
        asks(("c", "freeze")),
        result("c"),
        asks(("c", "freeze"), ("c", "pause")),
        result("c"),
        result("c"),
    )
    first = await sent(replace(HELLO, messages=history, tools=(FREEZE,)))
    longer = (*history, Message(role="assistant", content="ok"), USER)
    second = await sent(replace(HELLO, messages=longer, tools=(FREEZE,)))
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert [block["id"] for block in first["messages"][3]["content"]] == ["c_2", "c_3"]
    assert [block["tool_use_id"] for block in first["messages"][4]["content"]] == ["c_2", "c_3"]


@pytest.mark.parametrize(
    ("arguments", "sent_input"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1.0}', {"a": 1.0}),
        ('{"a":', {"INVALID_JSON": '{"a":'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ("null", {"INVALID_JSON": "null"}),
        ('{"a":NaN}', {"INVALID_JSON": '{"a":NaN}'}),
        ('{"a":' * 5000 + "1" + "}" * 5000, {"INVALID_JSON": '{"a":' * 5000 + "1" + "}" * 5000}),
    ],
)
async def test_arguments_that_are_no_object_go_back_as_what_they_are(arguments: str, sent_input: Any) -> None:
    body = await sent(
        replace(HELLO, messages=(USER, asks(("c", "freeze"), arguments=arguments), result("c")), tools=(FREEZE,))
    )
    assert body["messages"][1]["content"][0]["input"] == sent_input


async def test_arguments_cut_off_by_the_limit_come_as_they_are_and_can_go_back() -> None:
    step = events(
        BEGUN,
        start(0, {"type": "tool_use", "id": "t1", "name": "freeze", "input": {}}),
        piece(0, "input_json_delta", partial_json='{"id": 1, "na'),
        stop(0),
        because("max_tokens"),
        ENDED,
    )
    async with wired([step, say("ok")]) as (provider, upstream):
        _, reply = await streamed(provider)
        assert (reply.message.tool_calls[0].arguments, reply.finish_reason) == ('{"id": 1, "na', "length")
        history = (USER, reply.message, result("t1", "not JSON", is_error=True))
        await provider.complete(replace(HELLO, messages=history, tools=(FREEZE,)))
        assert upstream.bodies[-1]["messages"][1]["content"][0]["input"] == {"INVALID_JSON": '{"id": 1, "na'}


async def test_a_custom_call_of_chat_completions_is_a_call_with_its_input() -> None:
    custom = ToolCall(id="c1", name="code", arguments="print(1)", extra={"type": "custom", "custom": {"name": "code"}})
    history = (USER, Message(role="assistant", tool_calls=(custom,)), result("c1", "1"))
    body = await sent(replace(HELLO, messages=history))
    assert body["messages"][1]["content"][0]["input"] == {"input": "print(1)"}


@pytest.mark.parametrize("after", [(), (USER,), (Message(role="assistant", content="well"), USER)])
async def test_a_call_that_was_never_answered_is_answered_with_that(after: tuple[Message, ...]) -> None:
    history = (USER, asks(("c1", "freeze"), ("c2", "find")), result("c2", "found"), *after)
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE,)))
    found, missing = body["messages"][2]["content"][:2]
    assert found["tool_use_id"] == "c2"
    assert (missing["tool_use_id"], missing["is_error"]) == ("c1", True)
    assert "no result" in missing["content"]


@pytest.mark.parametrize(
    "history",
    [
        (USER, result("c1")),
        (USER, asks(("c1", "freeze")), result("c2")),
        (USER, asks(("c1", "freeze")), result("c1"), result("c1")),
        (USER, asks(("c1", "freeze")), result("c1"), Message(role="assistant", content="ok"), result("c1")),
    ],
)
async def test_a_result_without_its_call_is_refused_by_name(history: tuple[Message, ...]) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match=r"messages\[\d\]: the result for 'c\d' answers no call") as raised:
            await provider.complete(replace(HELLO, messages=history))
    assert raised.value.param == "messages"


# ---------------------------------------------------------------- messages


async def test_what_is_said_before_and_between_finds_its_place() -> None:
    history = (
        Message(role="system", content="be brief"),
        Message(role="developer", content=read_content(({"type": "text", "text": "be kind"},))),
        Message(role="assistant", content="Hi, I am new here."),
        USER,
        Message(role="system", content="it is late"),
        asks(("c1", "freeze"), content=" "),
        Message(role="system", content="hurry"),
        result("c1", ""),
        Message(role="user", content="and?"),
        Message(role="assistant", content=""),
        Message(role="user", content=""),
    )
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE,)))
    assert body["system"] == [{"type": "text", "text": "be brief"}, {"type": "text", "text": "be kind"}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "(empty message)"}]
    assert body["messages"][2]["content"] == [
        WORDS,
        {"type": "text", "text": "<system_note>\nit is late\n</system_note>"},
    ]
    assert body["messages"][4]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1"},
        {"type": "text", "text": "<system_note>\nhurry\n</system_note>"},
        {"type": "text", "text": "and?"},
        {"type": "text", "text": "(empty message)"},
    ]


async def test_a_model_that_takes_system_messages_in_between_is_given_them_where_they_may_stand() -> None:
    history = (
        USER,
        Message(role="system", content="one"),
        USER,
        Message(role="system", content="two"),
        asks(("c1", "freeze")),
        Message(role="system", content="three"),
        result("c1"),
        Message(role="system", content="four"),
    )
    wire = AnthropicWire(mid_system=True)
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE,), cache=True), wire=wire, mid_system=True)
    said = [(message["role"], [block.get("text") for block in message["content"]]) for message in body["messages"]]
    assert said == [
        ("user", ["hello", "<system_note>\none\n</system_note>", "hello"]),
        ("system", ["two"]),
        ("assistant", [None]),
        ("user", [None, "<system_note>\nthree\n</system_note>"]),
        ("system", ["four"]),
    ]


async def test_an_answer_to_be_gone_on_with_ends_without_white_space() -> None:
    body = await sent(replace(HELLO, messages=(USER, Message(role="assistant", content="The answer is "))))
    assert body["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "The answer is"}]}


async def test_a_conversation_of_system_messages_alone_is_asked_all_the_same() -> None:
    body = await sent(replace(HELLO, messages=(Message(role="system", content="Write a poem."),)))
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "(empty message)"}]}]


PNG = base64.b64encode(b"\x89PNG...").decode()


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ),
        (
            {"type": "image_url", "image_url": "https://x.example/a.jpg"},
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.jpg"}},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
            },
        ),
        (
            {"type": "file", "file": {"file_data": f"data:image/png;base64,{PNG}", "filename": "a.png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:text/csv;charset=utf-8;base64,YSxiCg=="}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b\n"}},
        ),
        (
            {"type": "file", "file": {"file_id": "file_1"}},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        ),
    ],
)
async def test_images_and_files_go_out_in_the_apis_words(part: dict[str, Any], block: dict[str, Any]) -> None:
    content = read_content(({"type": "text", "text": "look"}, {"type": "text", "text": ""}, MappingProxyType(part)))
    history = (Message(role="user", content=content), asks(("c1", "freeze")), result("c1", content))
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE,)))
    assert body["messages"][0]["content"] == [{"type": "text", "text": "look"}, block]
    assert body["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "look"}, block]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            Message(
                role="user",
                content=read_content(({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},)),
            ),
            r"messages\[0\].content\[0\]: content of type 'audio'",
        ),
        (
            Message(role="user", content=read_content(({"type": "text", "text": 7},))),
            r"content\[0\].text: must be text",
        ),
        (Message(role="user", content=read_content(({"text": "x"},))), "content of type None"),
        (Message(role="user", content=read_content(({"type": "image_url", "image_url": {}},))), "must hold a url"),
        (
            Message(role="user", content=read_content(({"type": "image_url", "image_url": "file:///etc/x"},))),
            "https address or a data",
        ),
        (
            Message(role="user", content=(Image(url="data:image/png,x"),)),
            "data URL in base64",
        ),
        (
            Message(
                role="user", content=read_content(({"type": "image_url", "image_url": "data:image/tiff;base64,x"},))
            ),
            "an image of type 'image/tiff' cannot be sent; image/gif",
        ),
        (Message(role="user", content=read_content(({"type": "file", "file": 7},))), "file: must be an object"),
        (Message(role="user", content=read_content(({"type": "file", "file": {}},))), "file_data or file_id"),
        (
            Message(
                role="user", content=read_content(({"type": "file", "file": {"file_data": "data:audio/wav;base64,x"}},))
            ),
            "a file of type 'audio/wav' cannot be sent",
        ),
        (
            Message(
                role="user",
                content=read_content(({"type": "file", "file": {"file_data": "data:text/plain;base64,@@"}},)),
            ),
            "not base64 of UTF-8",
        ),
        (
            Message(role="assistant", content=read_content(({"type": "image_url", "image_url": "https://x/y"},))),
            "content of type 'image'",
        ),
        (Message(role="function", content="x"), "role 'function'"),
    ],
)
async def test_what_the_api_has_no_word_for_is_refused_by_name(message: Message, words: str) -> None:
    async with wired([]) as (provider, upstream):
        for ask in (provider.complete, streamed_once(provider)):
            with pytest.raises(RequestError, match=words) as raised:
                await ask(replace(HELLO, messages=(message,)))
            assert raised.value.param == "messages"
        assert upstream.requests == []


def streamed_once(provider: Anthropic) -> Any:
    async def ask(request: ModelRequest) -> ModelReply:
        return (await streamed(provider, request))[1]

    return ask


async def test_empty_texts_in_an_answer_do_not_go_back() -> None:
    step = whole({"type": "text", "text": "\n\n"}, {"type": "tool_use", "id": "t1", "name": "freeze", "input": {}})
    async with wired([step, say("ok")]) as (provider, upstream):
        reply = await provider.complete(HELLO)
        await provider.complete(replace(HELLO, messages=(USER, reply.message, result("t1")), tools=(FREEZE,)))
        assert [block["type"] for block in upstream.bodies[-1]["messages"][1]["content"]] == ["tool_use"]


@pytest.mark.parametrize("content", ["", None, "it broke"])
async def test_an_error_of_a_tool_is_sent_as_one_and_always_says_something(content: str | None) -> None:
    history = (USER, asks(("c1", "freeze")), result("c1", content, is_error=True))
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE,)))
    (block,) = body["messages"][2]["content"]
    assert block["is_error"] is True
    assert block["content"]


TEXTS = st.sampled_from(["", " ", "hello", "\n", "ä "])
IDS = st.sampled_from(["", "c1", "c1", "c2", "bad id", "x" * 80])
CALLS = st.lists(
    st.builds(
        lambda call_id, name, arguments: ToolCall(id=call_id, name=name, arguments=arguments),
        IDS,
        st.sampled_from(["freeze", "pause", "odd.name", ""]),
        st.sampled_from(["{}", "", "[", '{"a":1}']),
    ),
    max_size=3,
).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Whatever a caller may have made of a conversation: the calls of an answer are answered in any order, or not at all."""
    made: list[Message] = []
    open_ids: list[str] = []
    for kind in draw(st.lists(st.sampled_from(["system", "user", "assistant", "result", "result"]), max_size=12)):
        revealed = draw(st.sampled_from([(), ("pause",), ("pause", "nobody")]))
        if kind == "assistant":
            wanted = draw(CALLS)
            open_ids = [each.id for each in wanted]
            made.append(Message(role="assistant", content=draw(TEXTS), tool_calls=wanted))
        elif kind == "result" and open_ids:
            call_id = open_ids.pop(draw(st.integers(0, len(open_ids) - 1)))
            failed = draw(st.booleans())
            made.append(result(call_id, draw(TEXTS), is_error=failed, revealed=revealed))
        elif kind != "result":
            made.append(Message(role=kind, content=draw(TEXTS), revealed=revealed if kind == "system" else ()))  # type: ignore[arg-type]
    return tuple(made)


@settings(max_examples=300, deadline=None)
@given(conversations(), st.booleans())
def test_whatever_was_said_goes_out_as_the_api_takes_it_and_no_result_is_lost(
    said: tuple[Message, ...], mid_system: bool
) -> None:
    request = ModelRequest(
        model=MODEL, messages=said, tools=(FREEZE, PAUSE), deferred=frozenset({"pause"}), cache=True, params=BUDGET
    )
    body, _ = write_request(
        request, model=MODEL, stream=False, author="a:m", tools=WireTools(), max_tokens=9000, mid_system=mid_system
    )
    decoded = msgspec.json.decode(body)
    assert AnthropicWire(mid_system=mid_system).refusal_of("/v1/messages", decoded) is None
    blocks = [block for message in decoded["messages"] for block in message["content"]]
    wanted = sum(len(message.tool_calls) for message in said)
    assert sum(block["type"] == "tool_use" for block in blocks) == wanted
    assert sum(block["type"] == "tool_result" for block in blocks) == wanted
    words = [text for message in said if (text := message.text.strip())]
    sent_words = body.decode()
    assert all(msgspec.json.encode(text).decode()[1:-1] in sent_words for text in words)


# ---------------------------------------------------------------- tools


async def test_tools_go_out_in_the_apis_form_encoded_already_or_not() -> None:
    bare = {"type": "function", "function": {"name": "bare"}}
    strict = tool("strict", strict=True, parameters={"properties": {"a": {}}})
    server = {"type": "web_search_20260318", "name": "web_search", "max_uses": 2}
    tools = (FREEZE, msgspec.Raw(msgspec.json.encode(PAUSE)), bare, strict, MappingProxyType(server))
    request = replace(HELLO, tools=tools)
    async with wired([say("ok")] * 2) as (provider, upstream):
        await provider.complete(request)
        await streamed(provider, request)
        first, second = (body["tools"] for body in upstream.bodies)
    assert first == second
    assert first == [
        {"name": "freeze", "description": "does freeze", "input_schema": SCHEMA},
        {"name": "pause", "description": "does pause", "input_schema": SCHEMA},
        {"name": "bare", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "strict",
            "description": "does strict",
            "input_schema": {"type": "object", "properties": {"a": {}}},
            "strict": True,
        },
        server,
    ]


BY_ID = {"properties": {"kind": {"const": "id"}, "id": {"type": "integer"}}, "required": ["kind", "id"]}
BY_NAME = {"properties": {"kind": {"const": "name"}, "name": {"type": "string"}}, "required": ["kind", "name"]}
EITHER = {
    "kind": {"anyOf": [{"const": "id"}, {"const": "name"}]},
    "id": {"type": "integer"},
    "name": {"type": "string"},
}


@pytest.mark.parametrize(
    ("given_schema", "sent_schema"),
    [
        (
            {"type": "object", "oneOf": [BY_ID, BY_NAME], "description": "Who."},
            {
                "type": "object",
                "description": "Who. Needs one of these: kind, id | kind, name.",
                "properties": EITHER,
                "required": ["kind"],
            },
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/gone"}, BY_NAME, True], "$defs": {"A": BY_ID}},
            {
                "type": "object",
                "$defs": {"A": BY_ID},
                "description": "Needs one of these: kind, id | kind, name.",
                "properties": EITHER,
                "required": ["kind"],
            },
        ),
        (
            {
                "type": "object",
                "properties": {"id": {"type": "string"}},
                "required": ["id"],
                "allOf": [BY_ID, {"if": {}, "then": {}}],
            },
            {
                "type": "object",
                "properties": {"id": {"type": "string"}, "kind": {"const": "id"}},
                "required": ["id", "kind"],
            },
        ),
        (
            {"anyOf": 7, "oneOf": [{"$ref": "#/oneOf/0"}, {"properties": 7, "required": 7}, 7], "required": None},
            {"type": "object", "properties": {}, "required": None, "description": "Needs one of these: nothing more."},
        ),
        (
            {"type": "object", "properties": {"$top": {}, "name": {}, "x" * 65: {}}, "required": ["name"]},
            {"type": "object", "properties": {"name": {}}, "required": ["name"]},
        ),
    ],
)
async def test_parameters_the_api_would_refuse_the_request_for_are_said_otherwise(
    given_schema: Any, sent_schema: Any
) -> None:
    body = await sent(replace(HELLO, tools=(tool("a", parameters=given_schema),)))
    assert body["tools"][0]["input_schema"] == sent_schema


async def test_a_parameter_that_must_be_given_stays_and_the_provider_names_it() -> None:
    schema = {"type": "object", "properties": {"$top": {}}, "required": ["$top"]}
    async with wired([]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match="Property keys should match pattern"):
            await provider.complete(replace(HELLO, tools=(tool("a", parameters=schema),)))


@pytest.mark.parametrize(
    "definition", [{"type": "custom", "custom": {"name": "code"}}, {"function": {"name": 7}}, 7, {"type": "function"}]
)
async def test_a_tool_that_is_no_function_is_refused(definition: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="tools: this provider takes functions only") as raised:
            await provider.complete(replace(HELLO, tools=(definition,)))
    assert raised.value.param == "tools"


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def some(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


BOTH = ["freeze", "pause"]


@pytest.mark.parametrize(
    ("choice", "params", "wire", "offered"),
    [
        (None, {}, None, BOTH),
        ("auto", {}, {"type": "auto"}, BOTH),
        ("none", {}, {"type": "none"}, BOTH),
        ("required", {}, {"type": "any"}, BOTH),
        (named("pause"), {}, {"type": "tool", "name": "pause"}, BOTH),
        (some("auto", "freeze"), {}, {"type": "auto"}, ["freeze"]),
        (some("required", "pause", "freeze"), {}, {"type": "any"}, BOTH),
        (None, {"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}, BOTH),
        ("required", {"parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}, BOTH),
        ("none", {"parallel_tool_calls": False}, {"type": "none"}, BOTH),
        (None, {"parallel_tool_calls": True}, None, BOTH),
    ],
)
async def test_every_choice_of_tools_is_said(choice: Any, params: Any, wire: Any, offered: list[str]) -> None:
    body = await sent(replace(HELLO, tools=(FREEZE, PAUSE), tool_choice=choice, params=params))
    assert body.get("tool_choice") == wire
    assert [each["name"] for each in body["tools"]] == offered


@pytest.mark.parametrize("choice", ["auto", "none", None])
async def test_without_tools_there_is_no_choice_to_send(choice: Any) -> None:
    history = (USER, asks(("c1", "freeze")), result("c1"))
    body = await sent(replace(HELLO, messages=history, tool_choice=choice, params={"parallel_tool_calls": False}))
    assert "tools" not in body
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    "choice",
    [
        "any",
        7,
        {"type": "custom", "custom": {"name": "x"}},
        {"type": "function", "function": {}},
        {"type": "allowed_tools", "allowed_tools": 7},
        some("none", "freeze"),
        some("auto"),
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "custom"}]}},
    ],
)
async def test_a_choice_that_means_nothing_is_refused_by_name(choice: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="tool_choice") as raised:
            await provider.complete(replace(HELLO, tools=(FREEZE,), tool_choice=choice))
    assert raised.value.param == "tool_choice"


@pytest.mark.parametrize(("choice", "model"), [("required", NEVER), (named("freeze"), NEVER), (named("other"), MODEL)])
async def test_a_choice_the_model_does_not_take_is_the_providers_to_refuse(choice: Any, model: str) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match=r"forcing tool use|not found in provided tools"):
            await provider.complete(replace(HELLO, model=model, tools=(FREEZE,), tool_choice=choice))


@pytest.mark.parametrize(
    ("allowed", "choice", "offered", "wire"),
    [
        (("freeze",), None, ["freeze"], None),
        (("pause", "freeze", "nobody"), "required", ["freeze", "pause"], {"type": "any"}),
        (("pause",), some("auto", "freeze", "pause"), ["pause"], {"type": "auto"}),
        ((), "auto", None, None),
    ],
)
async def test_only_tools_that_may_be_called_are_sent(allowed: Any, choice: Any, offered: Any, wire: Any) -> None:
    body = await sent(replace(HELLO, tools=(FREEZE, PAUSE), allowed=allowed, tool_choice=choice))
    assert ([each["name"] for each in body["tools"]] if "tools" in body else None) == offered
    assert body.get("tool_choice") == wire


async def test_deferred_tools_are_known_once_a_result_names_them() -> None:
    history = (
        USER,
        asks(("c1", "more"), ("c2", "freeze")),
        result("c1", "Here are two.", revealed=("pause", "find", "pause", "nobody", "freeze")),
        result("c2", "frozen"),
    )
    request = ModelRequest(
        model=MODEL,
        messages=history,
        tools=(FREEZE, tool("more"), PAUSE, FIND),
        deferred=frozenset({"pause", "find", "unsent"}),
        cache=True,
    )
    body = await sent(request)
    assert [(each["name"], each.get("defer_loading"), "cache_control" in each) for each in body["tools"]] == [
        ("freeze", None, False),
        ("more", None, True),
        ("pause", True, False),
        ("find", True, False),
    ]
    named_tools, frozen, *words = body["messages"][2]["content"]
    assert named_tools["content"] == [
        {"type": "tool_reference", "tool_name": "pause"},
        {"type": "tool_reference", "tool_name": "find"},
    ]
    assert frozen["content"] == [{"type": "text", "text": "frozen"}]
    assert [block["text"] for block in words] == ["Result of the call c1:", "Here are two."]


TOLD = ModelRequest(
    model=MODEL,
    messages=(
        USER,
        Message(role="system", content="", revealed=("pause", "unsent")),
        Message(role="assistant", content="hm"),
        Message(role="system", content="look", revealed=("find",)),
        USER,
    ),
    tools=(FREEZE, PAUSE, FIND, tool("more")),
    deferred=frozenset({"pause", "find", "more"}),
)


async def test_tools_that_no_result_made_known_are_not_held_back_where_the_model_cannot_be_told() -> None:
    body = await sent(TOLD)
    assert [each["name"] for each in body["tools"] if each.get("defer_loading")] == ["more"]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


async def test_tools_join_behind_a_turn_where_the_model_takes_system_messages_there() -> None:
    wire, options = AnthropicWire(mid_system=True), {"mid_system": True, "headers": {"Anthropic-Beta": "b1"}}
    async with wired([say("ok")], wire=wire, **options) as (provider, upstream):
        await provider.complete(replace(TOLD, headers={"anthropic-beta": "b2"}))
        body, headers = upstream.bodies[0], upstream.requests[0].headers
    assert [each["name"] for each in body["tools"] if each.get("defer_loading")] == ["pause", "more"]
    assert body["messages"][1] == {
        "role": "system",
        "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "pause"}}],
    }
    assert headers["anthropic-beta"] == "b1,b2,mid-conversation-tool-changes-2026-07-01"


async def test_a_result_that_failed_names_no_tools() -> None:
    history = (USER, asks(("c1", "freeze")), result("c1", "no", is_error=True, revealed=("pause",)))
    body = await sent(replace(HELLO, messages=history, tools=(FREEZE, PAUSE), deferred=frozenset({"pause"})))
    assert body["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "no"}]


async def test_not_all_tools_may_be_deferred() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="at least one that is not") as raised:
            await provider.complete(replace(HELLO, tools=(FREEZE,), deferred=frozenset({"freeze"})))
    assert raised.value.param == "deferred"


# ---------------------------------------------------------------- the prompt cache


def marks(body: Any) -> list[str]:
    """Where marks for the cache stand."""
    found = [f"tool {each['name']}" for each in body.get("tools", []) if "cache_control" in each]
    found += [f"system {place}" for place, block in enumerate(body.get("system", [])) if "cache_control" in block]
    for place, message in enumerate(body["messages"]):
        found += [f"message {place}.{i}" for i, block in enumerate(message["content"]) if "cache_control" in block]
    return found


async def test_the_cache_is_told_the_ends_of_tools_system_and_the_last_two_turns() -> None:
    history = (
        Message(role="system", content="a"),
        Message(role="system", content="b"),
        USER,
        asks(("c1", "freeze")),
        result("c1"),
        asks(*((f"d{place}", "freeze") for place in range(30))),
        *(result(f"d{place}") for place in range(30)),
    )
    request = replace(HELLO, messages=history, tools=(FREEZE, PAUSE), cache=True)
    body = await sent(request)
    assert marks(body) == ["tool pause", "system 1", "message 2.0", "message 4.29"]
    assert marks(await sent(replace(request, cache=False))) == []
    before = await sent(replace(request, messages=history[:5]))
    assert "message 2.0" in marks(before), "what the last request marked is marked again, so it is found"


@pytest.mark.parametrize("how", ["part", "result", "tool", "param"])
async def test_who_marks_what_to_cache_itself_is_left_to_it(how: str) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    marked = read_content(({"type": "text", "text": "hi", "cache_control": mark},))
    content = marked if how == "part" else "hi"
    own = {"name": "own", "input_schema": SCHEMA, **({"cache_control": mark} if how == "tool" else {})}
    request = ModelRequest(
        model=MODEL,
        messages=(
            USER,
            asks(("c1", "own")),
            result("c1", marked if how == "result" else "ok"),
            Message(role="user", content=content),
        ),
        tools=(own, FREEZE),
        params={"cache_control": mark} if how == "param" else {},
        cache=True,
    )
    body = await sent(request)
    assert marks(body) == {"part": ["message 2.1"], "result": [], "tool": ["tool own"], "param": []}[how]


# ---------------------------------------------------------------- parameters


async def test_parameters_are_said_in_the_apis_words() -> None:
    params = {
        "temperature": 0.5,
        "top_p": None,
        "top_k": 5,
        "max_completion_tokens": 50,
        "stop": "END",
        "user": "u1",
        "metadata": {"ticket": "7"},
        "n": 1,
        "reasoning_effort": "minimal",
        "output_config": {"effort": "high"},
        "response_format": {"type": "text"},
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": True,
        "seed": 7,
        "system": "stolen",
        "model": "other",
    }
    body = await sent(replace(HELLO, messages=(Message(role="system", content="s"), USER), params=params))
    assert body == {
        "model": MODEL,
        "max_tokens": 50,
        "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": [WORDS]}],
        "temperature": 0.5,
        "top_k": 5,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u1"},
        "output_config": {"effort": "low"},
    }


async def test_an_answer_has_a_bound_where_the_request_has_none() -> None:
    assert (await sent(HELLO))["max_tokens"] == 16_000
    assert (await sent(HELLO, max_tokens=99))["max_tokens"] == 99


@pytest.mark.parametrize(
    ("effort", "field", "value"),
    [("high", "output_config", {"effort": "high"}), ("none", "thinking", {"type": "disabled"})],
)
async def test_effort_is_said(effort: str, field: str, value: Any) -> None:
    assert (await sent(replace(HELLO, params={"reasoning_effort": effort})))[field] == value


LOOSE = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 99, "description": "in years"},
        "minimum": {"type": "array", "items": {"$ref": "#/$defs/X"}, "minItems": 3, "default": {"minimum": 1}},
        "any": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    },
    "required": ["age"],
    "$defs": {"X": {"type": "object", "properties": {}, "additionalProperties": True}},
}
CLOSED = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "description": 'in years {"minimum":0,"maximum":99}'},
        "minimum": {
            "type": "array",
            "items": {"$ref": "#/$defs/X"},
            "default": {"minimum": 1},
            "description": '{"minItems":3}',
        },
        "any": {"anyOf": [{"type": "string", "description": '{"maxLength":3}'}, {"type": "null"}]},
    },
    "required": ["age"],
    "$defs": {"X": {"type": "object", "properties": {}, "additionalProperties": False}},
    "additionalProperties": False,
}


@pytest.mark.parametrize("how", ["request", "parameter"])
async def test_a_schema_for_the_answer_is_sent_in_the_form_the_api_takes(how: str) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": LOOSE, "strict": True}}
    request = (
        replace(HELLO, output_schema=LOOSE) if how == "request" else replace(HELLO, params={"response_format": wanted})
    )
    body = await sent(replace(request, params={**(request.params or {}), "reasoning_effort": "low"}))
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": 7}, "response_format"),
        ({"output_config": 7}, "output_config"),
    ],
)
async def test_parameters_the_api_cannot_serve_are_refused_by_name(params: Any, param: str) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match=param) as raised:
            await provider.complete(replace(HELLO, params=params))
    assert raised.value.param == param


@pytest.mark.parametrize("params", [{"frequency_penalty": 1}, {"logprobs": True}, {"reasoning_effort": "huge"}])
async def test_parameters_nobody_knows_are_the_providers_to_refuse(params: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match=r"Extra inputs are not permitted|effort: Input should be"):
            await provider.complete(replace(HELLO, params=params))


async def test_headers_of_ones_own_go_along() -> None:
    request = replace(HELLO, headers={"x-trace": "t", "X-Api-Key": "stolen"})
    async with wired([say("ok")], headers={"Anthropic-Beta": "b1"}) as (provider, upstream):
        await provider.complete(request)
        headers = upstream.requests[0].headers
    assert (headers["anthropic-beta"], headers["x-trace"], headers["x-api-key"]) == ("b1", "t", KEY)


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ProviderRejectedError, False),
        (401, ProviderAuthError, False),
        (402, ProviderRejectedError, False),
        (403, ProviderAuthError, False),
        (404, ProviderRejectedError, False),
        (409, ProviderUnavailableError, True),
        (413, ProviderRejectedError, False),
        (429, ProviderRateLimitError, True),
        (500, ProviderUnavailableError, True),
        (504, ProviderUnavailableError, True),
        (529, ProviderUnavailableError, True),
    ],
)
@both_ways
async def test_an_error_status_is_raised_as_its_kind_with_what_the_provider_said(
    stream: bool, status: int, kind: type[ProviderError], retryable: bool
) -> None:
    async with wired([refuse(status, "no such luck", headers={"retry-after": "7"})]) as (provider, _):
        with pytest.raises(kind, match=f"anthropic: no such luck .HTTP {status}.") as raised:
            await asked(provider, stream)
    assert (raised.value.status, raised.value.retryable, raised.value.retry_after) == (status, retryable, 7.0)


@pytest.mark.parametrize(
    ("said", "kind", "status"),
    [
        ("overloaded_error", ProviderUnavailableError, 529),
        ("api_error", ProviderUnavailableError, 500),
        ("timeout_error", ProviderUnavailableError, 504),
        ("rate_limit_error", ProviderRateLimitError, 429),
        ("invalid_request_error", ProviderRejectedError, 400),
        ("authentication_error", ProviderAuthError, 401),
        ("error_to_come", ProviderProtocolError, None),
        (7, ProviderProtocolError, None),
    ],
)
@both_ways
async def test_an_error_in_place_of_an_answer_or_within_one_is_raised_as_its_kind(
    stream: bool, said: Any, kind: type[ProviderError], status: int | None
) -> None:
    error = {"type": "error", "error": {"type": said, "message": "too much"}}
    step: Any = garbage(msgspec.json.encode(error))
    if stream:
        step = events(BEGUN, start(0, {"type": "text", "text": ""}), piece(0, "text_delta", text="he"), error)
    async with wired([step]) as (provider, _):
        stream_of = provider.stream(HELLO)
        if stream:
            first = await anext(stream_of)
            assert isinstance(first, ModelDelta)
            assert first.text == "he"
        with pytest.raises(kind, match="stopped with an error: too much") as raised:
            await (anext(stream_of) if stream else provider.complete(HELLO))
    assert raised.value.status == status


RICH = replace(calls(("freeze", {"id": 1}), ("pause", {}), text="both"), reasoning="hm")
SIZE = len(AnthropicWire().events(RICH, answer_id="x", model="m", body={}))


@pytest.mark.parametrize("clean", [True, False], ids=["ended early", "broken connection"])
@pytest.mark.parametrize("after", range(1, SIZE))
async def test_a_stream_cut_at_any_event_is_an_error(after: int, clean: bool) -> None:
    async with wired([cut(RICH, after=after, clean=clean)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match="cut its"):
            await streamed(provider)


async def test_a_plain_answer_cut_in_the_middle_is_an_error() -> None:
    async with wired([cut(RICH, after=0, clean=True)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match="not JSON"):
            await provider.complete(HELLO)


@both_ways
async def test_no_content_is_no_answer(stream: bool) -> None:
    async with wired([empty_choices()]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match="content"):
            await asked(provider, stream)


MALFORMED = [
    (b"<html>oh</html>", "not JSON"),
    (b"[1]", "not a JSON object"),
    (b"\xff\xfe", "not JSON"),
    (b'{"type":"content_block_start","index":0,"content_block":{"a":"\xff"},"content":[{"a":"\xff"}]}', "not JSON"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, "not JSON|no|content"),
    (b'{"error":{"message":"overloaded"}}', "stopped with an error: overloaded"),
    (b'{"error":"text"}', "stopped with an error: text"),
]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *MALFORMED,
        (b"{}", "without content"),
        (b'{"content":{}}', "unknown shape"),
        (b'{"content":[7]}', "unknown shape"),
        (b'{"content":[{}]}', "block without a type"),
        (b'{"content":[{"type":"text"}]}', "text block without text"),
        (b'{"content":[{"type":"tool_use","id":"t"}]}', "tool_use without the name"),
        (b'{"content":[{"type":"tool_use","id":7,"name":"a"}]}', "tool_use without the name"),
        (b'{"content":[{"type":"tool_use","id":"t","name":"a","input":[1]}]}', "input of a tool_use is not an object"),
        (b'{"content":[],"stop_reason":"end_turn","usage":{"input_tokens":"many"}}', "unknown shape.*input_tokens"),
    ],
)
async def test_an_answer_that_breaks_the_protocol_is_named_as_such(body: bytes, words: str) -> None:
    async with wired([garbage(body)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await provider.complete(HELLO)


CALL_0 = start(0, {"type": "tool_use", "id": "t", "name": "a", "input": {}})


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        *(([body], words) for body, words in MALFORMED),
        ([b"{}"], "unknown shape|no content"),
        ([{"type": 7}], "unknown shape"),
        ([start(0, {"text": "x"})], "block without a type"),
        ([{"type": "content_block_start", "index": 0}], "began a block without saying which"),
        ([{"type": "content_block_start", "content_block": WORDS}], "began a block without saying which"),
        ([CALL_0, CALL_0], "began a block without saying which"),
        ([CALL_0, stop(0), CALL_0], "began a block without saying which"),
        ([start(0, {"type": "tool_use", "id": "t"})], "without the name of its tool"),
        ([start(0, {"type": "tool_use", "id": "t", "name": "a", "input": 7}), stop(0)], "input of a tool_use"),
        ([piece(0, "text_delta", text="x")], "piece of a block that is not open"),
        ([piece(0, "text_delta", text=7)], "unknown shape.*text"),
        ([CALL_0, piece("0", "input_json_delta", partial_json="{")], "unknown shape.*index"),  # type: ignore[arg-type]
        ([stop(0)], "closed a block that was not open"),
        ([CALL_0, because("tool_use")], "in the middle of a block"),
    ],
)
async def test_a_stream_that_breaks_the_protocol_is_named_as_such(bodies: list[Any], words: str) -> None:
    made = [body if isinstance(body, bytes) else msgspec.json.encode(body) for body in bodies]
    async with wired([Events([*made, msgspec.json.encode(ENDED)])]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await streamed(provider)


async def test_an_event_of_a_kind_to_come_may_hold_whatever_it_likes() -> None:
    odd = [b'{"type":"new","index":"x","delta":[1],"message":7}', b'{"type":"newer","usage":"none"}']
    said = [msgspec.json.encode(event) for event in (BEGUN, start(0, WORDS), stop(0), because(), ENDED)]
    async with wired([Events([*odd, *said])]) as (provider, _):
        assert (await streamed(provider))[1].message.content == "hello"


@pytest.mark.parametrize("count", [-5, 2**70])
async def test_counts_beyond_reason_count_nothing(count: int) -> None:
    body = b'{"content":[],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":3}}' % count
    async with wired([garbage(body)]) as (provider, _):
        assert (await provider.complete(HELLO)).usage == Usage(output_tokens=3)


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_leaving_a_stream_closes_the_connection_to_the_provider(how: str) -> None:
    async with wired([paced(say("slow"), asyncio.Semaphore(4))]) as (provider, upstream):
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


async def test_a_stream_without_end_is_left_like_any_other() -> None:
    async with wired([endless()]) as (provider, upstream):
        async with aclosing(provider.stream(HELLO)) as stream:  # type: ignore[type-var]
            assert [(await anext(stream)).text for _ in range(20)] == ["and"] * 20  # type: ignore[union-attr]
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


@both_ways
async def test_an_answer_that_does_not_come_is_unavailable(stream: bool) -> None:
    step = paced(say("late"), asyncio.Semaphore(1 if stream else 0))
    async with wired([step]) as (provider, _):
        with pytest.raises(ProviderUnavailableError, match="in time"):
            await asked(provider, stream, replace(HELLO, timeout=0.05))


async def test_connections_are_used_again_also_after_a_stream() -> None:
    async with wired(lambda _: say("ok")) as (provider, upstream):
        for _ in range(3):
            await provider.complete(HELLO)
            await streamed(provider)
        assert len({request.peer for request in upstream.requests}) == 1


@pytest.mark.parametrize("step", [refuse(401, f"bad key {KEY}"), garbage(b"you sent " + KEY.encode())])
@both_ways
async def test_the_key_shows_in_no_error(stream: bool, step: Any) -> None:
    async with wired([step]) as (provider, _):
        with pytest.raises(ProviderError) as raised:
            await asked(provider, stream)
        assert KEY not in f"{raised.value!s} {raised.value!r} {raised.value.body!r} {provider!r}"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs a key"),
        ({"base_url": "ftp://x"}, "must begin with http"),
        ({"api_key": "sk-\n"}, "copy the key again"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_settings(**settings)
