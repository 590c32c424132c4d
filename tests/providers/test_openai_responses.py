"""The Responses provider, over real sockets: against the strict server, the official package, and broken servers."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import openai
import pytest
from aiohttp import web
from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent, ToolParam
from pydantic import TypeAdapter

from tests.providers.described import described, validator_of
from toolcaddie.core.content import Refusal, Text, block_kind
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
from toolcaddie.providers.openai_responses import OpenAIResponses, from_settings
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
from toolcaddie.testing.responses import ResponsesWire, error_event
from toolcaddie.wires.chat.content import read_content

pytestmark = pytest.mark.anyio

KEY = "sk-secret-0123456789"
USER = Message(role="user", content="hello")
HELLO = ModelRequest(model="gpt-test", messages=(USER,))


def tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    return {"type": "function", "function": {"name": name, "description": f"{name} it", "parameters": schema, **more}}


TOOLS = (tool("freeze"), tool("find"), tool("send"), tool("note"))
WITH_TOOLS = replace(HELLO, tools=TOOLS)


@asynccontextmanager
async def wired(script: Any, **options: Any) -> AsyncIterator[tuple[OpenAIResponses, ScriptedUpstream]]:
    async with ScriptedUpstream(script, api_key=KEY, wire=ResponsesWire()) as upstream:
        provider = OpenAIResponses(upstream.base_url, KEY, **options)
        try:
            yield provider, upstream
        finally:
            await provider.close()


async def streamed(provider: OpenAIResponses, request: ModelRequest = HELLO) -> tuple[list[ModelDelta], ModelReply]:
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return [item for item in items if isinstance(item, ModelDelta)], items[-1]


async def asked(provider: OpenAIResponses, stream: bool, request: ModelRequest = HELLO) -> ModelReply:
    return (await streamed(provider, request))[1] if stream else await provider.complete(request)


async def sent(request: ModelRequest) -> Any:
    """The body of that request, which the strict server took."""
    async with wired([say("fine")]) as (provider, upstream):
        await provider.complete(request)
        assert upstream.refusals == []
        return upstream.bodies[0]


def with_params(**params: Any) -> ModelRequest:
    return replace(HELLO, params=params)


def result(call_id: str, content: Any = "done", **more: Any) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=content, **more)


def calling(*made: ToolCall, **more: Any) -> Message:
    return Message(role="assistant", tool_calls=made, **more)


both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@dataclass(frozen=True)
class Bytes:
    """A step: these bytes as an event stream, in these pieces."""

    pieces: Sequence[bytes]

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        for piece in self.pieces:
            await exchange.send_bytes(piece)
        return await exchange.end()


def events(*found: Mapping[str, Any] | bytes) -> Bytes:
    """A step: a stream of these events."""
    data = (event if isinstance(event, bytes) else msgspec.json.encode(event) for event in found)
    return Bytes([b"data: " + each + b"\n\n" for each in data])


def answer(*output: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "r", "object": "response", "status": "completed", "model": "m", "output": list(output), **more}


def as_asked(stream: bool, *output: Mapping[str, Any], **more: Any) -> Any:
    """A step: an answer of these items, plain or as the shortest stream there is."""
    whole = answer(*output, **more)
    if not stream:
        return garbage(msgspec.json.encode(whole))
    done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)]
    return events(*done, {"type": f"response.{whole['status']}", "response": whole})


def words(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **more}


def a_call(call_id: str, name: str = "find", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments, **more}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}


# ---------------------------------------------------------------- answers


@both_ways
async def test_words_calls_usage_and_reason_come_back(stream: bool) -> None:
    used = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, written_tokens=30, reasoning_tokens=8)
    step = replace(calls(("find", {"x": "ä"}), ("send", None), text="both"), usage=used)
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream, WITH_TOOLS)
    assert reply.message.content == "both"
    assert [(each.id, each.name, each.arguments) for each in reply.message.tool_calls] == [
        ("call_1_0", "find", '{"x":"ä"}'),
        ("call_1_1", "send", "{}"),
    ]
    assert (reply.finish_reason, reply.usage, reply.model) == ("tool_calls", used, "gpt-test")
    assert reply.message.author == "openai-responses:gpt-test"
    assert reply.raw is not None
    assert (reply.raw.wire, reply.raw.fields["truncation"]) == ("responses", "disabled")
    assert not reply.raw.fields.keys() & {"id", "output", "tools", "instructions"}
    assert [block["type"] for block in reply.message.native] == ["message", "function_call", "function_call"]


async def test_a_plain_and_a_streamed_answer_are_one_and_the_same() -> None:
    step = replace(calls(("find", {"x": 1}), ("send", None), text="both"), reasoning="Hm.")
    async with wired([step, step], name="p") as (provider, _):
        plain, (_, whole) = await provider.complete(HELLO), await streamed(provider)
    ids = [re.sub(r"(rs|msg|fc)_\d", r"\1", str(reply.message.native)) for reply in (plain, whole)]
    assert len(plain.message.native) == len(whole.message.native) == 4
    assert ids[0][:40] == ids[1][:40]
    assert [(each.name, each.arguments) for each in plain.message.tool_calls] == [
        (each.name, each.arguments) for each in whole.message.tool_calls
    ]


async def test_a_stream_comes_piece_by_piece() -> None:
    step = replace(call("freeze", {"member": "John"}, text="One moment"), reasoning="A member is meant.")
    async with wired([step]) as (provider, _):
        deltas, reply = await streamed(provider, WITH_TOOLS)
    assert len([delta for delta in deltas if delta.text]) > 1
    assert "".join(delta.text for delta in deltas) == "One moment" == reply.message.content
    assert "".join(delta.reasoning for delta in deltas) == "A member is meant."
    pieces = [piece for delta in deltas for piece in delta.calls]
    assert pieces[0] == CallDelta(index=0, id="call_1_0", name="freeze")
    assert "".join(piece.arguments for piece in pieces) == reply.message.tool_calls[0].arguments == '{"member":"John"}'


async def test_arguments_may_be_split_at_every_byte_of_the_stream() -> None:
    arguments = '{"é":"\\u00e9\\ud83d\\ude00😀"}'
    wire = ResponsesWire()
    found = wire.events(call("note", arguments, call_id="c1"), answer_id="1", model="m", body={})
    whole = b"".join(map(wire.block, found)).replace(b"\n", b"\r\n")
    async with wired([Bytes([bytes([byte]) for byte in b": ping\r\n\r\n" + whole])]) as (provider, _):
        deltas, reply = await streamed(provider, WITH_TOOLS)
    assert reply.message.tool_calls == (ToolCall(id="c1", name="note", arguments=arguments),)
    assert "".join(piece.arguments for delta in deltas for piece in delta.calls) == arguments


async def test_every_seam_of_streamed_arguments_holds() -> None:
    arguments = '{"a":"é😀"}'
    for place in range(len(arguments) + 1):
        item, at = a_call("c1", "note", arguments), {"output_index": 0, "item_id": "fc_1"}
        added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}}
        parts = [arguments[:place], arguments[place:]]
        deltas = [{"type": "response.function_call_arguments.delta", **at, "delta": part} for part in parts]
        done = {"type": "response.output_item.done", "output_index": 0, "item": item}
        end = {"type": "response.completed", "response": answer(item)}
        async with wired([events(added, *deltas, done, end)]) as (provider, _):
            found, reply = await streamed(provider)
        assert reply.message.tool_calls[0].arguments == arguments
        assert "".join(piece.arguments for delta in found for piece in delta.calls) == arguments


async def test_four_parallel_calls_are_numbered_from_nought_and_keep_their_order() -> None:
    step = calls(("send", {"id": 0}), ("find", {"id": 1}), ("find", {"id": 2}), ("note", {"id": 3}), text="All four.")
    async with wired([replace(step, reasoning="So many.")]) as (provider, _):
        deltas, reply = await streamed(provider, WITH_TOOLS)
    opened = [piece for delta in deltas for piece in delta.calls if piece.name]
    assert [(piece.index, piece.name) for piece in opened] == [(0, "send"), (1, "find"), (2, "find"), (3, "note")]
    assert [each.id for each in reply.message.tool_calls] == [piece.id for piece in opened]
    assert [each.arguments for each in reply.message.tool_calls] == [f'{{"id":{number}}}' for number in range(4)]


@both_ways
async def test_calls_that_share_an_id_are_two_calls_and_both_get_their_result(stream: bool) -> None:
    step = calls(("find", {"id": 1}), ("find", {"id": 2}), ids=("same", "same"))
    async with wired([step, say("fine")]) as (provider, upstream):
        reply = await asked(provider, stream, WITH_TOOLS)
        assert [each.id for each in reply.message.tool_calls] == ["same", "same"]
        said = (USER, reply.message, result("same", "first"), result("same", "second"))
        await provider.complete(replace(WITH_TOOLS, messages=said))
        assert upstream.refusals == []
        outputs = [(item["call_id"], item["output"]) for item in upstream.bodies[1]["input"] if "output" in item]
    assert outputs == [("same", "first"), ("same_2", "second")]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "steered"),
        ({"status": "incomplete"}, "incomplete"),
    ],
)
@both_ways
async def test_the_reason_to_finish_is_told_in_our_words(stream: bool, end: dict[str, Any], expected: str) -> None:
    async with wired([as_asked(stream, words("hi"), **end)]) as (provider, _):
        assert (await asked(provider, stream)).finish_reason == expected


@both_ways
async def test_a_limit_spent_on_thinking_alone_is_an_answer_of_no_words(stream: bool) -> None:
    step = as_asked(stream, THOUGHT, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.message.content, reply.finish_reason) == ("", "length")


@both_ways
async def test_a_refusal_is_told_apart_from_words(stream: bool) -> None:
    async with wired([Reply(extra={"refusal": "I will not."})]) as (provider, _):
        reply = await asked(provider, stream)
    assert (reply.message.content, reply.message.extra) == ("", {"refusal": "I will not."})


@both_ways
async def test_several_messages_of_one_answer_are_paragraphs(stream: bool) -> None:
    step = as_asked(stream, words("I look.", phase="commentary"), words(""), words("Four.", phase="final_answer"))
    async with wired([step]) as (provider, _):
        reply = await asked(provider, stream)
    assert reply.message.content == "I look.\n\nFour."
    assert [block.get("phase") for block in reply.message.native] == ["commentary", None, "final_answer"]


async def test_a_server_that_streams_no_pieces_is_understood() -> None:
    async with wired([as_asked(True, words("Hi."), a_call("c1", arguments='{"a":1}'))]) as (provider, _):
        deltas, reply = await streamed(provider)
    assert "".join(delta.text for delta in deltas) == "Hi." == reply.message.content
    assert [piece for delta in deltas for piece in delta.calls] == [
        CallDelta(index=0, id="c1", name="find", arguments='{"a":1}')
    ]


async def test_the_items_count_that_were_finished_even_if_the_end_lists_none() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": words("Hi.")}
    async with wired([events(done, {"type": "response.completed", "response": answer()})]) as (provider, _):
        assert (await streamed(provider))[1].message.content == "Hi."


async def test_the_end_counts_for_items_that_it_alone_finishes() -> None:
    added = {"type": "response.output_item.added", "output_index": 0, "item": words("")}
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "H"}
    async with wired([events(added, delta, {"type": "response.completed", "response": answer(words("Hi."))})]) as both:
        assert (await streamed(both[0]))[1].message.content == "Hi."


async def test_pings_unknown_events_and_unknown_items_are_passed_over_and_items_are_kept() -> None:
    strange = {"type": "daydream", "id": "dd_1", "of": {"sheep": 3}, "name": 7, "content": "x"}
    seen = [
        {"type": "ping"},
        {"type": "keepalive", "delta": 7, "item": 7, "response": 7},
        {"type": "response.output_item.added", "output_index": 0, "item": strange},
        {"type": "response.daydream.delta", "output_index": 0, "delta": {"sheep": 1}},
        {"type": "response.output_item.done", "output_index": 0, "item": strange},
        {"type": "response.output_item.done", "output_index": 1, "item": words("Hi.")},
        b"[DONE]",
        {"type": "response.completed", "response": answer(strange, words("Hi."))},
    ]
    async with wired([events(*seen)]) as (provider, _):
        _, reply = await streamed(provider)
    assert reply.message.content == "Hi."
    assert reply.message.native[0] == strange


@both_ways
async def test_a_call_without_an_id_gets_one(stream: bool) -> None:
    item = {name: value for name, value in a_call("").items() if name != "call_id"}
    async with wired([as_asked(stream, item)]) as (provider, _):
        reply = await asked(provider, stream)
    assert reply.message.tool_calls[0].id.startswith("call_")


async def test_models_are_listed() -> None:
    async with wired([]) as (provider, _):
        assert [model["id"] for model in await provider.models()] == ["gpt-test"]


# ---------------------------------------------------------------- over several rounds


@both_ways
async def test_thinking_and_calls_go_back_as_they_came_round_after_round(stream: bool) -> None:
    script = [
        replace(calls(("find", {"id": 1}), ("send", {"id": 2}), text="I look."), reasoning="First I look."),
        replace(call("note", {"id": 3}), reasoning="Then I note."),
        replace(say("Done."), reasoning="That was it."),
        say("You are welcome."),
    ]
    async with wired(script) as (provider, upstream):
        said: list[Message] = [Message(role="system", content="Be brief."), USER]
        for number in range(4):
            reply = await asked(provider, stream, replace(WITH_TOOLS, messages=tuple(said)))
            renamed = tuple(replace(each, id=f"r{number}_{at}") for at, each in enumerate(reply.message.tool_calls))
            said.append(replace(reply.message, tool_calls=renamed))
            said += [result(each.id, f"result of {each.id}") for each in renamed]
            if number == 2:
                said.append(Message(role="user", content="Thanks."))
        assert upstream.refusals == []
        last, before = upstream.bodies[3]["input"], upstream.bodies[2]["input"]
    assert last[: len(before)] == before
    kinds = [item.get("type", item.get("role")) for item in last]
    assert kinds == [
        *("system", "user", "reasoning", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output", "reasoning", "function_call", "function_call_output"),
        *("reasoning", "message", "user"),
    ]
    assert last[2]["summary"] == [{"type": "summary_text", "text": "First I look."}]
    assert [item["call_id"] for item in last if "call_id" in item] == [
        *("r0_0", "r0_1", "r0_0", "r0_1", "r1_0", "r1_0"),
    ]
    assert not any("id" in item for item in last), "nothing is stored under these ids"


async def test_the_strict_server_refuses_thinking_that_was_altered_or_left_out() -> None:
    """What the test above rests on."""
    async with wired([replace(call("find"), reasoning="Hm."), say("fine")]) as (provider, _):
        reply = await provider.complete(WITH_TOOLS)
        thought, *rest = reply.message.native
        for native in (({**thought, "encrypted_content": "gAAAA"}, *rest), tuple(rest)):
            said = (USER, replace(reply.message, native=native), result("call_1_0"))
            with pytest.raises(ProviderRejectedError, match=r"could not be verified|required 'reasoning' item"):
                await provider.complete(replace(WITH_TOOLS, messages=said))


async def test_another_authors_answer_goes_out_as_words_calls_and_results() -> None:
    theirs = calling(
        ToolCall(id="toolu_1", name="find", arguments='{"id":1}', extra={"signature": "x"}),
        ToolCall(id="x" * 90, name="odd name!", arguments="not json"),
        ToolCall(id="c3", name="code", arguments="print(1)", extra={"type": "custom", "custom": {"name": "code"}}),
        content="Let me see.",
        author="claude:opus",
        native=({"type": "thinking", "thinking": "hm", "signature": "s"},),
        extra={"reasoning_content": "hm"},
    )
    results = (result("x" * 90, "no such tool", is_error=True), result("toolu_1"), result("c3", None))
    body = await sent(replace(WITH_TOOLS, messages=(USER, theirs, *results)))
    long = body["input"][3]["call_id"]
    assert len(long) <= 64
    assert body["input"][1:] == [
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "toolu_1", "name": "find", "arguments": '{"id":1}'},
        {"type": "function_call", "call_id": long, "name": "odd_name_", "arguments": "not json"},
        {"type": "function_call", "call_id": "c3", "name": "code", "arguments": '{"input":"print(1)"}'},
        {"type": "function_call_output", "call_id": long, "output": "no such tool"},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "done"},
        {"type": "function_call_output", "call_id": "c3", "output": ""},
    ]


async def test_an_answer_whose_calls_were_changed_is_told_anew() -> None:
    ours = calling(
        ToolCall(id="c1", name="find"),
        content="I look.",
        author="openai-responses:gpt-test",
        native=(words("I look."), a_call("c1"), a_call("c2")),
    )
    body = await sent(replace(WITH_TOOLS, messages=(USER, ours, result("c1"))))
    assert [item.get("call_id") for item in body["input"]] == [None, None, "c1", "c1"]


@pytest.mark.parametrize(
    ("native", "kept"),
    [
        ((THOUGHT, words("hi", phase="commentary")), ["reasoning", "message"]),
        ((THOUGHT,), []),
        (({**THOUGHT, "encrypted_content": None}, words("hi")), ["message"]),
        ((words("hi"), words("", content=[])), ["message"]),
    ],
    ids=["thought and words", "a thought that led to nothing", "a thought that is stored nowhere", "nothing said"],
)
async def test_only_what_the_provider_can_read_again_goes_back(native: Any, kept: list[str]) -> None:
    ours = Message(role="assistant", content="hi", author="openai-responses:gpt-test", native=native)
    async with ScriptedUpstream([garbage(msgspec.json.encode(answer(words("ok"))))], wire=_Lenient()) as upstream:
        provider = OpenAIResponses(upstream.base_url, "test-key")
        await provider.complete(replace(HELLO, messages=(USER, ours, USER)))
        await provider.close()
        items = upstream.bodies[0]["input"][1:-1]
    assert [item["type"] for item in items] == kept
    assert not any("id" in item or None in item.values() for item in items)


class _Lenient(ResponsesWire):
    def refusal_of(self, path: str, body: Any) -> None:
        return None


async def test_open_thinking_of_a_server_of_ones_own_goes_back_with_its_id() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    native = (thought, words("hi"), {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": None})
    ours = Message(role="assistant", content="hi", author="openai-responses:gpt-test", native=native)
    async with ScriptedUpstream([garbage(msgspec.json.encode(answer(words("ok"))))], wire=_Lenient()) as upstream:
        provider = OpenAIResponses(upstream.base_url, "test-key")
        await provider.complete(replace(HELLO, messages=(USER, ours, USER)))
        await provider.close()
        items = upstream.bodies[0]["input"]
    assert items[1] == thought
    assert items[3] == {"type": "web_search_call", "id": "ws_1", "status": "completed"}


# ---------------------------------------------------------------- turns that are not as they should be


async def test_a_call_without_a_result_is_answered_in_its_place() -> None:
    made = calling(ToolCall(id="c1", name="find"), ToolCall(id="c2", name="send"))
    body = await sent(replace(WITH_TOOLS, messages=(USER, made, result("c2"), USER)))
    outputs = [(item["call_id"], item["output"]) for item in body["input"] if "output" in item]
    assert outputs[0] == ("c2", "done")
    assert outputs[1][0] == "c1"
    assert "interrupted" in outputs[1][1]
    assert body["input"][-1] == {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "messages",
    [
        (USER, result("c1")),
        (USER, calling(ToolCall(id="c1", name="find")), USER, result("c1")),
        (USER, calling(ToolCall(id="c1", name="find")), result("c1"), result("c1")),
    ],
    ids=["no call", "too late", "twice"],
)
async def test_a_result_without_its_call_is_refused_by_name(messages: Any) -> None:
    async with wired([]) as (provider, upstream):
        with pytest.raises(RequestError, match="'c1'"):
            await provider.complete(replace(WITH_TOOLS, messages=messages))
        assert upstream.requests == []


async def test_ids_that_repeat_or_are_empty_or_too_long_are_made_fit_and_stay_so() -> None:
    turn = [calling(ToolCall(id="", name="find")), result(""), calling(ToolCall(id="c" * 64, name="find"))]
    messages = (USER, *turn, result("c" * 64), *turn, result("c" * 64))
    first, second = [await sent(replace(WITH_TOOLS, messages=messages)) for _ in range(2)]
    ids = [item["call_id"] for item in first["input"] if item.get("type") == "function_call"]
    assert len(set(ids)) == 4
    assert first == second


async def test_messages_without_words_are_sent_or_left_out_but_never_refused() -> None:
    messages = (
        USER,
        Message(role="assistant", content=""),
        Message(role="user"),
        Message(role="developer", content=""),
    )
    body = await sent(replace(HELLO, messages=messages))
    assert body["input"][1:] == [{"role": "user", "content": ""}]


async def test_what_an_assistant_refused_is_told_in_words() -> None:
    refused = (
        Message(role="assistant", extra={"refusal": "No."}),
        Message(
            role="assistant",
            content=(Text(text="Well:"), Refusal(text="no.")),
        ),
    )
    body = await sent(replace(HELLO, messages=(*refused, USER)))
    assert [item["content"] for item in body["input"]] == ["No.", "Well:\nno.", "hello"]


# ---------------------------------------------------------------- content


async def test_images_files_and_texts_go_out_in_this_apis_parts() -> None:
    parts = (
        {"type": "text", "text": "look", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "high"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
        {"type": "input_text", "text": "already"},
    )
    expected = [
        {"type": "input_text", "text": "look", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "high"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_text", "text": "already"},
    ]
    shot = (USER, calling(ToolCall(id="c1", name="find")), result("c1", read_content(parts[:2])))
    assert (await sent(replace(HELLO, messages=(Message(role="user", content=read_content(parts)),))))["input"][0][
        "content"
    ] == expected
    assert (await sent(replace(WITH_TOOLS, messages=shot)))["input"][2]["output"] == expected[:2]


@pytest.mark.parametrize(
    "message",
    [
        Message(
            role="user",
            content=read_content(({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},)),
        ),
        Message(role="user", content=read_content(({"type": "smell"},))),
        Message(role="user", content=read_content(({"type": "text", "text": 7},))),
        Message(role="assistant", content=read_content(({"type": "image_url", "image_url": {"url": "data:"}},))),
    ],
)
async def test_a_part_that_cannot_be_told_is_refused_by_name(message: Message) -> None:
    assert isinstance(message.content, tuple)
    async with wired([]) as (provider, upstream):
        with pytest.raises(RequestError, match=f"'{block_kind(message.content[0])}' in a message with role") as refused:
            await provider.complete(replace(HELLO, messages=(message,)))
        assert (upstream.requests, refused.value.param) == ([], "messages")


async def test_a_role_of_old_is_refused_by_name() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="role 'function'"):
            await provider.complete(replace(HELLO, messages=(Message(role="function", content="x"),)))


# ---------------------------------------------------------------- tools and choices


async def test_definitions_go_out_flat_and_are_not_strict_unless_they_say_so() -> None:
    strict = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools: Any = [
        tool("find"),
        msgspec.Raw(msgspec.json.encode(tool("send"))),
        {"type": "function", "function": {"name": "bare"}},
        MappingProxyType({"type": "function", "function": MappingProxyType({"name": "proxy", "parameters": {}})}),
        tool("exact", strict=True, parameters=strict),
        {"type": "web_search"},
    ]
    body = await sent(replace(HELLO, tools=tools))
    schema = tool("find")["function"]["parameters"]
    none = {"type": "object", "properties": {}}
    assert body["tools"] == [
        {"type": "function", "name": "find", "description": "find it", "parameters": schema, "strict": False},
        {"type": "function", "name": "send", "description": "send it", "parameters": schema, "strict": False},
        {"type": "function", "name": "bare", "parameters": none, "strict": False},
        {"type": "function", "name": "proxy", "parameters": none, "strict": False},
        {"type": "function", "name": "exact", "description": "exact it", "parameters": strict, "strict": True},
        {"type": "web_search"},
    ]


async def test_encoded_definitions_are_the_same_bytes_in_every_request() -> None:
    tools: Any = tuple(msgspec.Raw(msgspec.json.encode(each)) for each in TOOLS)
    async with wired([say("a"), say("b")]) as (provider, upstream):
        for _ in range(2):
            await provider.complete(replace(HELLO, tools=tools))
        assert upstream.requests[0].raw == upstream.requests[1].raw


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "custom", "custom": {"name": "code"}},
        {"type": "function"},
        {"type": "function", "function": {"name": 7}},
    ],
)
async def test_a_tool_this_api_has_no_form_for_is_refused(definition: Any) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError) as refused:
            await provider.complete(replace(HELLO, tools=(definition,)))
        assert refused.value.param == "tools"


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


def flat(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "name": name} for name in names]


CHOICES = [
    (None, None, None),
    ("auto", None, "auto"),
    ("none", None, "none"),
    ("required", None, "required"),
    (named("find"), None, {"type": "function", "name": "find"}),
    (
        allowed("required", "find", "send"),
        None,
        {"type": "allowed_tools", "mode": "required", "tools": flat("find", "send")},
    ),
    (None, ("find", "gone"), {"type": "allowed_tools", "mode": "auto", "tools": flat("find")}),
    ("required", ("find",), {"type": "allowed_tools", "mode": "required", "tools": flat("find")}),
    ("none", ("find",), "none"),
    (named("send"), ("find",), {"type": "function", "name": "send"}),
    (None, (), "none"),
]


@pytest.mark.parametrize(("choice", "mask", "expected"), CHOICES)
async def test_every_choice_is_translated(choice: Any, mask: Any, expected: Any) -> None:
    body = await sent(replace(WITH_TOOLS, tool_choice=choice, allowed=mask))
    assert body.get("tool_choice") == expected


async def test_a_choice_among_no_tools_is_not_sent() -> None:
    for choice in (None, "auto", "none"):
        assert "tool_choice" not in await sent(replace(HELLO, tool_choice=choice, allowed=("find",)))


@pytest.mark.parametrize(
    ("tools", "choice"),
    [
        (TOOLS, "perhaps"),
        (TOOLS, 7),
        (TOOLS, {"type": "function"}),
        (TOOLS, {"type": "function", "function": {"name": 7}}),
        (TOOLS, named("nobody")),
        (TOOLS, {"type": "allowed_tools"}),
        (TOOLS, allowed("none", "find")),
        (TOOLS, allowed("auto")),
        (TOOLS, allowed("auto", "nobody")),
        (TOOLS, {"type": "custom", "custom": {"name": "find"}}),
        ((), "required"),
        ((), named("find")),
    ],
)
async def test_a_choice_that_means_nothing_is_refused_by_name(tools: Any, choice: Any) -> None:
    async with wired([]) as (provider, upstream):
        with pytest.raises(RequestError, match="tool_choice") as refused:
            await provider.complete(replace(HELLO, tools=tools, tool_choice=choice))
        assert (refused.value.param, upstream.requests) == ("tool_choice", [])


# ---------------------------------------------------------------- tools held back


HELD = replace(WITH_TOOLS, deferred=frozenset({"send", "note"}))


@both_ways
async def test_held_back_tools_come_behind_the_result_that_reveals_them_and_move_nothing(stream: bool) -> None:
    script = [
        calls(("find", {"id": 1}), ("find", {"id": 2})),
        call("send", {"id": 3}),
        say("Done."),
    ]
    async with wired(script) as (provider, upstream):
        said: list[Message] = [USER]
        for revealed in (("send", "freeze", "gone"), ("send",), ()):
            reply = await asked(provider, stream, replace(HELD, messages=tuple(said)))
            said.append(reply.message)
            said += [result(each.id, revealed=revealed) for each in reply.message.tool_calls]
        assert upstream.refusals == []
        bodies = upstream.bodies
    assert [[tool["name"] for tool in body["tools"]] for body in bodies] == [["freeze", "find"]] * 3
    assert bodies[2]["input"][: len(bodies[1]["input"])] == bodies[1]["input"]
    kinds = [item.get("type") for item in bodies[2]["input"]]
    assert kinds == [
        *(None, "function_call", "function_call", "function_call_output", "function_call_output"),
        *("additional_tools", "function_call", "function_call_output"),
    ]
    added = bodies[2]["input"][5]
    assert (added["role"], [tool["name"] for tool in added["tools"]]) == ("developer", ["send"])
    assert added["tools"][0]["parameters"] == TOOLS[2]["function"]["parameters"]
    assert bodies[2]["input"][6]["namespace"] == "send"


async def test_a_message_that_is_no_result_reveals_too_and_need_not_say_anything() -> None:
    silent = Message(role="system", content="", revealed=("send", "send"))
    spoken = Message(role="system", content="And this one.", revealed=("note", "send"))
    body = await sent(replace(HELD, messages=(USER, Message(role="assistant", content="Yes?"), silent, spoken, USER)))
    told = [item.get("content") or [tool["name"] for tool in item["tools"]] for item in body["input"]]
    assert told == ["hello", "Yes?", ["send"], "And this one.", ["note"], "hello"]


async def test_the_strict_server_misses_a_namespace() -> None:
    """What the test above rests on."""
    find = result("c1", revealed=("send",))
    turn = (USER, calling(ToolCall(id="c1", name="find")), find)
    async with wired([call("send"), say("fine")]) as (provider, _):
        reply = await provider.complete(replace(HELD, messages=turn))
        bare = replace(reply.message, native=())
        with pytest.raises(ProviderRejectedError, match="namespace"):
            await provider.complete(replace(HELD, messages=(*turn, bare, result(bare.tool_calls[0].id))))


async def test_only_revealed_tools_can_be_chosen_or_allowed() -> None:
    turn = (USER, calling(ToolCall(id="c1", name="find")), result("c1", revealed=("send",)))
    request = replace(HELD, messages=turn)
    body = await sent(replace(request, allowed=("find", "send", "note")))
    assert body["tool_choice"]["tools"] == flat("find", "send")
    assert (await sent(replace(request, tool_choice=named("send"))))["tool_choice"] == flat("send")[0]
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="'note' it names is not sent, or not revealed yet"):
            await provider.complete(replace(request, tool_choice=named("note")))


async def test_where_every_tool_is_held_back_none_is_sent() -> None:
    body = await sent(replace(WITH_TOOLS, deferred=frozenset({"freeze", "find", "send", "note"})))
    assert "tools" not in body
    assert "tool_choice" not in body


# ---------------------------------------------------------------- parameters


PARAMS = [
    ({"temperature": 0, "top_p": 0.5, "user": "u", "metadata": {"a": "b"}}, {"temperature": 0, "user": "u"}),
    ({"max_tokens": 50}, {"max_output_tokens": 50}),
    ({"max_completion_tokens": 60}, {"max_output_tokens": 60}),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
    (
        {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
    ),
    ({"n": 1, "presence_penalty": 0, "logprobs": False, "seed": 3, "stop": None, "stream": True}, {}),
    ({"store": True, "include": []}, {"store": True, "include": []}),
    ({"truncation": "auto", "max_tool_calls": 3}, {"truncation": "auto", "max_tool_calls": 3}),
    ({"model": "other", "input": "x", "tools": []}, {"model": "gpt-test"}),
]


@pytest.mark.parametrize(("params", "expected"), PARAMS)
async def test_parameters_of_chat_completions_go_out_in_this_apis_names(params: Any, expected: Any) -> None:
    body = await sent(with_params(**params))
    assert {name: body[name] for name in expected} == expected
    assert set(body) <= {*expected, "top_p", "metadata", "model", "input", "store", "include", "tools"}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"stop": ["x"]}, "Unknown parameter: 'stop'"),
        ({"n": 2}, "Unknown parameter: 'n'"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"functions": []}, "functions"),
        ({"frobnicate": 1}, "frobnicate"),
        ({"max_tokens": 3}, "max_output_tokens"),
    ],
)
async def test_what_has_no_meaning_here_the_provider_refuses_by_name(params: Any, words: str) -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(ProviderRejectedError, match=words):
            await provider.complete(with_params(**params))


async def test_a_parameter_that_must_be_an_object_is_refused_by_name() -> None:
    async with wired([]) as (provider, _):
        with pytest.raises(RequestError, match="'reasoning' must be an object, not str"):
            await provider.complete(with_params(reasoning="hard", reasoning_effort="low"))


async def test_nothing_is_stored_and_reasoning_is_asked_for_encrypted() -> None:
    body = await sent(HELLO)
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "ft:gpt-4o:acme", "openai/gpt-4o", "gpt-3.5-turbo"])
async def test_models_that_never_reason_are_not_asked_for_reasoning(model: str) -> None:
    assert "include" not in await sent(replace(HELLO, model=model))


async def test_usage_is_told_without_being_asked_for() -> None:
    for options in ({"include_usage": True}, {"include_usage": True, "include_obfuscation": False}):
        async with wired([say("hi")]) as (provider, upstream):
            _, reply = await streamed(provider, with_params(stream_options=options))
            assert upstream.bodies[0].get("stream_options", {}) == {
                name: value for name, value in options.items() if name != "include_usage"
            }
        assert reply.usage.input_tokens == 100


async def test_a_schema_and_a_cache_key_go_out() -> None:
    schema = {"type": "object", "properties": {}}
    request = replace(HELLO, output_schema=schema, cache_key="k1", cache=True, params={"verbosity": "low"})
    body = await sent(request)
    assert body["text"] == {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "answer", "schema": schema},
    }
    assert body["prompt_cache_key"] == "k1"


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ProviderRejectedError, False),
        (401, ProviderAuthError, False),
        (403, ProviderAuthError, False),
        (404, ProviderRejectedError, False),
        (409, ProviderUnavailableError, True),
        (429, ProviderRateLimitError, True),
        (500, ProviderUnavailableError, True),
        (503, ProviderUnavailableError, True),
    ],
)
@both_ways
async def test_an_error_status_is_raised_as_its_kind(
    stream: bool, status: int, kind: type[ProviderError], retryable: bool
) -> None:
    async with wired([refuse(status, "no such luck", headers={"retry-after": "7"})]) as (provider, _):
        with pytest.raises(kind, match=f"openai-responses: no such luck .HTTP {status}.") as raised:
            await asked(provider, stream)
    assert (raised.value.status, raised.value.retryable, raised.value.retry_after) == (status, retryable, 7.0)


FAILURES: list[tuple[dict[str, Any], type[ProviderError]]] = [
    ({"code": "rate_limit_exceeded", "message": "slow down"}, ProviderRateLimitError),
    ({"code": "server_error", "message": "slow down"}, ProviderUnavailableError),
    ({"code": "server_overloaded", "message": "slow down"}, ProviderUnavailableError),
    ({"type": "server_error", "code": None, "message": "slow down"}, ProviderUnavailableError),
    ({"code": "invalid_prompt", "message": "slow down"}, ProviderRejectedError),
    ({"code": "bio_policy", "message": "slow down"}, ProviderRejectedError),
    ({"code": "invalid_api_key", "message": "slow down"}, ProviderAuthError),
    ({"message": "slow down"}, ProviderUnavailableError),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES)
@both_ways
async def test_a_failed_answer_is_an_error_of_the_kind_it_names(
    stream: bool, error: dict[str, Any], kind: type[ProviderError]
) -> None:
    async with wired([as_asked(stream, status="failed", error=error)]) as (provider, _):
        with pytest.raises(ProviderError, match="slow down") as raised:
            await asked(provider, stream)
    assert type(raised.value) is kind


@pytest.mark.parametrize(("error", "kind"), FAILURES)
@pytest.mark.parametrize("nested", [False, True])
async def test_an_error_in_the_middle_of_a_stream_is_raised_after_what_came_before(
    nested: bool, error: dict[str, Any], kind: type[ProviderError]
) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "he"}
    flat_event = {**error, "type": "error", "code": error.get("code") or error.get("type")}
    event = {"type": "error", "error": error} if nested else flat_event
    async with wired([events(delta, event)]) as (provider, _):
        stream = provider.stream(HELLO)
        first = await anext(stream)
        assert isinstance(first, ModelDelta)
        assert first.text == "he"
        with pytest.raises(ProviderError, match="slow down") as raised:
            await anext(stream)
    assert type(raised.value) is kind


async def test_an_error_event_may_name_its_status_and_leave_out_its_type() -> None:
    script = [
        events({"type": "error", "status": 429, "error": {"message": "wait", "type": "odd"}}),
        events({"error": {"message": "wait", "type": "too_many_requests"}}),
        events(error_event(429, "wait")),
    ]
    async with wired(script) as (provider, _):
        for _ in script:
            with pytest.raises(ProviderRateLimitError, match="wait"):
                await streamed(provider)


RICH = replace(calls(("find", {"id": 1}), ("send", None), text="Let me see."), reasoning="Which?")


@pytest.mark.parametrize("clean", [True, False], ids=["ended early", "broken connection"])
async def test_a_stream_cut_behind_any_event_is_an_error(clean: bool) -> None:
    total = len(ResponsesWire().events(RICH, answer_id="1", model="m", body={}))
    assert total > 25
    async with wired([cut(RICH, after=place, clean=clean) for place in range(1, total)]) as (provider, _):
        for _ in range(1, total):
            with pytest.raises(ProviderProtocolError, match="cut its"):
                await streamed(provider, WITH_TOOLS)


@pytest.mark.parametrize("clean", [True, False], ids=["ended early", "broken connection"])
async def test_a_plain_answer_cut_is_an_error(clean: bool) -> None:
    async with wired([cut(RICH, after=2, clean=clean)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=r"cut its|not JSON"):
            await provider.complete(HELLO)


@both_ways
async def test_an_answer_of_nothing_is_an_error(stream: bool) -> None:
    for step in (empty_choices(), as_asked(stream, THOUGHT)):
        async with wired([step]) as (provider, _):
            with pytest.raises(ProviderProtocolError, match="without a message or a call"):
                await asked(provider, stream)


GARBAGE = [
    (b"<html>oh</html>", "not JSON"),
    (b"[1]", "not a JSON object"),
    (b"\xff\xfe", "not JSON"),
    (b'{"a":"\xff"}', "not JSON|no output|without a type"),
    (b'{"error":{"message":"overloaded"}}', "stopped with an error: overloaded"),
    (b'{"error":"overloaded"}', "stopped with an error: overloaded"),
]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        *GARBAGE,
        (b"{}", "no output"),
        (b'{"output":{}}', "unknown shape"),
        (b'{"output":[7]}', "unknown shape"),
        (b'{"output":[{}]}', "unknown shape.*type"),
        (b'{"output":[{"type":"message","content":7}]}', "unknown shape.*content"),
        (b'{"output":[{"type":"function_call","call_id":"c"}]}', "a tool call without a name"),
        (b'{"output":[{"type":"function_call","name":"a","arguments":{}}]}', "unknown shape.*arguments"),
        (b'{"output":[],"usage":{"input_tokens":"many"}}', "input_tokens"),
        (b'{"output":[],"status":"queued"}', "'queued'"),
        (b'{"output":[],"status":"cancelled"}', "'cancelled'"),
    ],
)
async def test_an_answer_that_breaks_the_protocol_is_named_as_such(body: bytes, words: str) -> None:
    async with wired([garbage(body)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await provider.complete(HELLO)


ADDED = {"type": "response.output_item.added", "output_index": 0}
DONE = {"type": "response.output_item.done", "output_index": 0}
ARGUMENTS = {"type": "response.function_call_arguments.delta", "output_index": 0}
END = {"type": "response.completed", "response": answer()}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        *(([body], words) for body, words in GARBAGE if b"overloaded" not in body),
        ([b"{}"], "without a type"),
        ([{"type": 7}], "unknown shape"),
        ([{"type": "response.output_text.delta", "delta": 7}], "unknown shape.*delta"),
        ([{**ADDED, "item": 7}], "unknown shape.*item"),
        ([{**ADDED, "item": {}}], "unknown shape.*type"),
        ([{**ADDED, "item": {"type": "function_call", "call_id": "c"}}], "a tool call without a name"),
        ([{**ARGUMENTS, "delta": "{"}], "a call it never began"),
        ([{**ADDED, "item": words("")}, {**ARGUMENTS, "delta": "{"}], "a call it never began"),
        (
            [{**ADDED, "item": a_call("c")}, {"type": "response.output_text.delta", "output_index": 0, "delta": "x"}],
            "streamed words of a function_call",
        ),
        ([{**ADDED, "item": a_call("c")}, {**ADDED, "item": a_call("d")}], "two items at 0"),
        (
            [{**ADDED, "item": a_call("c")}, {**DONE, "item": words("x")}],
            "began a function_call find and ended a message",
        ),
        (
            [{**ADDED, "item": a_call("c")}, {**DONE, "item": a_call("c", "send")}],
            "find and ended a function_call send",
        ),
        (
            [{**ADDED, "item": a_call("c", arguments="{")}, {**DONE, "item": a_call("c", arguments="[]")}],
            "pieces that do not match its whole function_call",
        ),
        ([{**ADDED, "item": a_call("c")}, END], "unfinished function_call"),
        ([{"type": "response.completed", "response": 7}], "unknown shape.*response"),
        ([END], "without a message or a call"),
    ],
)
async def test_a_stream_that_breaks_the_protocol_is_named_as_such(found: Any, words: str) -> None:
    async with wired([events(*found)]) as (provider, _):
        with pytest.raises(ProviderProtocolError, match=words):
            await streamed(provider)


@pytest.mark.parametrize("how", ["cancelled", "closed", "dropped"])
async def test_leaving_a_stream_closes_the_connection_to_the_provider(how: str) -> None:
    gate = asyncio.Semaphore(0)
    for _ in range(5):  # created, in progress, the item, its part, the first words
        gate.release()
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


async def test_a_stream_without_end_can_be_left() -> None:
    async with wired([endless("so on ")]) as (provider, upstream):
        async with aclosing(provider.stream(HELLO)) as stream:  # type: ignore[type-var]
            found = [await anext(stream) for _ in range(3)]
        assert all(isinstance(delta, ModelDelta) and delta.text for delta in found)
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()


@pytest.mark.parametrize("settings", [{}, {"base_url": "ftp://x"}, {"base_url": "http://user:sk-1@host/v1"}])
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        from_settings(**settings)


async def test_settings_make_a_provider_that_works_again_after_it_was_closed() -> None:
    async with ScriptedUpstream(lambda _: say("hi"), api_key=None, wire=ResponsesWire()) as upstream:
        provider = from_settings(base_url=f"{upstream.base_url}/", api_key=None, model="m")
        for _ in range(2):
            assert (await provider.complete(ModelRequest(model="", messages=HELLO.messages))).message.content == "hi"
            await provider.close()
        assert upstream.bodies[0]["model"] == "m"
        assert KEY not in repr(provider)


# ---------------------------------------------------------------- the official package and description


THOUGHTFUL = replace(calls(("find", {"id": 1}), ("send", None), text="Let me see."), reasoning="Which of them?")
ANSWERS = [say("hi"), THOUGHTFUL, Reply(extra={"refusal": "no"}), say("cut", finish_reason="length")]


def official(upstream: ScriptedUpstream) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=upstream.base_url, api_key=KEY, max_retries=0)


async def test_the_official_package_reads_what_the_scripted_server_sends_as_we_do() -> None:
    async with wired([THOUGHTFUL] * 4) as (provider, upstream), official(upstream) as client:
        theirs = await client.responses.create(model="gpt-test", input="hello")
        stream = await client.responses.create(model="gpt-test", input="hello", stream=True)
        seen = [event async for event in stream]
        ours = await provider.complete(HELLO), (await streamed(provider))[1]
    last = seen[-1]
    assert last.type == "response.completed"
    for found, reply in ((theirs, ours[0]), (last.response, ours[1])):
        assert found.output_text == reply.message.content
        made = [item for item in found.output if item.type == "function_call"]
        assert [(item.name, item.arguments) for item in made] == [
            (each.name, each.arguments) for each in reply.message.tool_calls
        ]
    assert "".join(event.delta for event in seen if event.type == "response.output_text.delta") == "Let me see."


async def test_what_the_scripted_server_sends_is_what_the_official_types_take() -> None:
    wire = ResponsesWire()
    for reply in ANSWERS:
        Response.model_validate(wire.whole(reply, answer_id="1", model="m"), strict=True)
        for event in wire.events(reply, answer_id="1", model="m", body={}):
            STREAM_EVENT.validate_json(event)


STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
INPUT_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
TOOL: TypeAdapter[Any] = TypeAdapter(ToolParam)


@described
async def test_what_the_scripted_server_sends_is_what_the_description_says() -> None:
    wire, whole, event_of = ResponsesWire(), validator_of("Response"), validator_of("ResponseStreamEvent")
    for reply in ANSWERS:
        whole.validate(wire.whole(reply, answer_id="1", model="m"))
        for event in wire.events(reply, answer_id="1", model="m", body={}):
            event_of.validate(msgspec.json.decode(event))


async def every_request() -> list[Any]:
    """Bodies of requests with everything a conversation may hold."""
    async with wired([THOUGHTFUL, say("Sent."), say("fine"), say("fine")]) as (provider, upstream):
        said: list[Message] = [Message(role="system", content="Be brief."), USER]
        for _ in range(2):
            reply = await provider.complete(replace(HELD, messages=tuple(said)))
            said += [reply.message, *(result(each.id, revealed=("note",)) for each in reply.message.tool_calls)]
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
        said.append(Message(role="user", content=read_content(({"type": "text", "text": "look"}, picture))))
        elsewhere = [replace(message, author="x:y") if message.author else message for message in said]
        params = {"reasoning_effort": "low", "max_tokens": 50, "temperature": 0, "verbosity": "low"}
        for messages in (said, elsewhere):
            request = replace(HELD, model="gpt-6", messages=tuple(messages), params=params, allowed=("find", "note"))
            await streamed(provider, replace(request, output_schema={"type": "object"}, cache_key="k"))
        assert upstream.refusals == []
        return upstream.bodies


def with_ids(item: dict[str, Any]) -> dict[str, Any]:
    """An item with the id that the description demands, and that stateless requests are refused for: see `responses_wire`."""
    stored = item.get("type") == "reasoning" or (item.get("type") == "message" and item["role"] == "assistant")
    return {"id": "rs_1", **item} if stored else item


def consumed(value: Any) -> Any:
    """Everything in it: the official types leave lists unchecked until they are read."""
    if isinstance(value, Mapping):
        return {name: consumed(inner) for name, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [consumed(inner) for inner in value]
    return value


async def test_what_we_send_is_what_the_official_types_take() -> None:
    for body in await every_request():
        for item in body["input"]:
            consumed(INPUT_ITEM.validate_python(with_ids(item)))
        for definition in body["tools"]:
            consumed(TOOL.validate_python(definition))


@described
async def test_what_we_send_is_what_the_description_allows() -> None:
    request_schema, item_schema = validator_of("CreateResponse"), validator_of("InputItem")
    for body in await every_request():
        items = [with_ids(item) for item in body["input"]]
        request_schema.validate({**body, "input": items})
        for item in items:
            item_schema.validate(item)
    assert not item_schema.is_valid({"type": "function_call", "name": "x"})
    assert not request_schema.is_valid({"model": "m", "input": [{"role": "robot", "content": "hi"}]})


async def test_the_scripted_server_refuses_what_the_real_one_does_in_its_words() -> None:
    call_item = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    flat_tool = {"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": False}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"input": []}, "must be provided"),
        ({"input": [{"role": "tool", "content": "x"}]}, "Invalid value: 'tool'"),
        ({"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "Invalid value: 'text'"),
        ({"input": [{"role": "user", "content": "x", "name": "bob"}]}, r"Unknown parameter: 'input\[0\].name'"),
        ({"input": [call_item]}, "No tool output found for function call c1"),
        ({"input": [output]}, "No tool call found for function call output with call_id c1"),
        ({"input": [{**call_item, "call_id": "c" * 65}, output]}, "string too long"),
        ({"input": [{**call_item, "name": "a b"}, output]}, "does not match pattern"),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, "Item with id 'rs_1' not found"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "Item with id 'msg_1' not found"),
        ({"input": [{**THOUGHT}]}, "without its required following item"),
        ({"max_tokens": 5}, "has moved to 'max_output_tokens'"),
        ({"response_format": {}}, "has moved to 'text.format'"),
        ({"stream_options": {"include_obfuscation": False}}, "only allowed when 'stream'"),
        ({"previous_response_id": "resp_1"}, "Previous response with id 'resp_1' not found"),
        ({"include": ["everything"]}, "Invalid value: 'everything'"),
        ({"tools": [tool("find")]}, r"Missing required parameter: 'tools\[0\].name'"),
        ({"tools": [flat_tool, flat_tool]}, "unique"),
        ({"tools": [{**flat_tool, "parameters": {}}]}, "Invalid schema for function 'find'"),
        ({"tools": [{**flat_tool, "strict": True}]}, "'additionalProperties' is required"),
        ({"tools": [{**flat_tool, "defer_loading": True}]}, "tool_search"),
        ({"tools": [flat_tool], "tool_choice": named("find")}, "tool_choice.name"),
        ({"tools": [flat_tool], "tool_choice": {"type": "function", "name": "x"}}, "'x' not found in 'tools'"),
        ({"tool_choice": "required"}, "must be specified with 'tools'"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"reasoning": {"effort": "heroic"}}, "Invalid value: 'heroic'"),
    ]
    wire = ResponsesWire()
    for fields, expected in cases:
        refused = wire.refusal_of("/v1/responses", {"model": "m", "input": "hello", **fields})
        assert refused is not None, fields
        assert msgspec.json.encode(refused)
        with pytest.raises(AssertionError, match=expected):
            raise AssertionError(refused["error"]["message"])
    assert wire.refusal_of("/v1/responses", {"model": "m", "input": "hello", "tools": [flat_tool]}) is None
