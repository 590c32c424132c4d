"""Forced use: the escalation over real sockets, what is asked at each step, and who answers in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from toolcaddie.core.capabilities import CAPABILITIES, Capabilities, capabilities_from
from toolcaddie.core.errors import (
    ConfigError,
    ProviderProtocolError,
    ProviderRejectedError,
    ProviderUnavailableError,
    ToolNotCalledError,
)
from toolcaddie.core.message import CallDelta, Force, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.retry import Retry
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.wrapping import Entry
from toolcaddie.testing import Reply, ScriptedUpstream, call, calls, cut, endless, garbage, paced, refuse, say
from toolcaddie.wires.chat.content import read_content

pytestmark = pytest.mark.anyio

BOOKS = {
    "type": "function",
    "function": {
        "name": "search_books",
        "description": "Finds books.",
        "parameters": {
            "type": "object",
            "properties": {"title": {"type": "string", "maxLength": 50}, "year": {"type": "integer", "minimum": 0}},
            "required": ["title"],
        },
    },
}
LOANS = {
    "type": "function",
    "function": {"name": "list_loans", "parameters": {"type": "object", "properties": {}}},
}
MORE = {
    "type": "function",
    "function": {"name": "request_more_tools", "parameters": {"type": "object", "properties": {}}},
}
FORCE = Force(candidates=("search_books", "list_loans"), ignored=frozenset({"request_more_tools"}))
ASKED = ModelRequest(
    model="m",
    messages=(Message(role="system", content="Be kind."), Message(role="user", content="any books on bees?")),
    tools=(MORE, BOOKS, LOANS),
    force=FORCE,
)
FOUND = call("search_books", {"title": "bees"})
AS_JSON = say('{"call": {"tool": "search_books", "arguments": {"title": "bees"}}}')
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


def table(**fields: Any) -> Sequence[Capabilities]:
    return [capabilities_from({"pattern": "openai:*", **fields}), *CAPABILITIES]


HONOURS = table(json_schema="with_tools")
IGNORES = table(required="ignored", named="ignored", json_schema="alone")
WORDS_ONLY = table(required="ignored", named="ignored", json_schema="no")


@asynccontextmanager
async def forced(
    script: Any, fallback: Any = None, **options: Any
) -> AsyncIterator[tuple[Forced, ScriptedUpstream, Any]]:
    """A forcing provider, its server, and that of its fallback."""
    options = {"capabilities": HONOURS, **options}
    entry = options.pop("entry", {})
    async with ScriptedUpstream(script) as upstream, ScriptedUpstream(fallback or []) as second:
        if fallback is not None:
            other = OpenAIChat(second.base_url, "test-key", name="other")
            options["fallback"] = Entry(provider=other, **{"model": "m2", **entry})
        provider = Forced(OpenAIChat(upstream.base_url, "test-key"), **options)
        try:
            yield provider, upstream, second
        finally:
            await provider.close()


async def asked(provider: Any, stream: bool, request: ModelRequest = ASKED) -> tuple[list[ModelDelta], ModelReply]:
    if not stream:
        return [], await provider.complete(request)
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return [item for item in items if isinstance(item, ModelDelta)], items[-1]


def said(body: Any) -> str:
    return str(body["messages"][-1]["content"])


def steps_of(reply: ModelReply | ToolNotCalledError) -> list[tuple[str, str]]:
    return [(attempt.how, attempt.outcome) for attempt in reply.attempts]


# ---------------------------------------------------------------- the escalation


@both_ways
async def test_an_answer_that_calls_a_tool_at_once_is_the_answer(stream: bool) -> None:
    async with forced([FOUND]) as (provider, upstream, _):
        deltas, reply = await asked(provider, stream)
    assert reply.message.tool_calls[0].name == "search_books"
    assert steps_of(reply) == [("plain", "answered")]
    assert said(upstream.bodies[0]) == "any books on bees?"
    assert "tool_choice" not in upstream.bodies[0]
    assert any(delta.calls for delta in deltas) is stream
    assert reply.provider == ""


@pytest.mark.proves("R003-11", "R003-12", "R003-13")
@both_ways
async def test_a_good_server_is_asked_plainly_then_by_choice_then_by_schema(stream: bool) -> None:
    async with forced([say("Bees are nice."), say("They buzz."), AS_JSON]) as (provider, upstream, _):
        _, reply = await asked(provider, stream)
    assert steps_of(reply) == [("plain", "not_called"), ("required", "not_called"), ("schema", "answered")]
    plain, required, schema = upstream.bodies
    assert said(plain) == "any books on bees?"
    assert required["tool_choice"] == "required"
    assert said(required).startswith("any books on bees?\n\n")
    assert "calling one of the tools" in said(required)
    assert schema["response_format"]["type"] == "json_schema"
    assert schema["tool_choice"] == "none"
    assert schema["tools"] == plain["tools"]
    assert reply.usage.input_tokens == 300
    assert sum(attempt.usage.output_tokens for attempt in reply.attempts) == 30


@pytest.mark.proves("R003-19")
async def test_every_note_stands_behind_the_original_message() -> None:
    async with forced([say("no")] * 4, attempts=4, capabilities=WORDS_ONLY) as (provider, upstream, _):
        await provider.complete(ASKED)
    notes = [said(body) for body in upstream.bodies]
    assert notes[0] == "any books on bees?"
    assert notes[1] == notes[2] == notes[3]
    assert notes[1].count("calling one of the tools") == 1


async def test_a_server_that_ignores_choices_is_not_asked_for_one() -> None:
    async with forced([say("a"), say("b"), AS_JSON], capabilities=IGNORES) as (provider, upstream, _):
        reply = await provider.complete(ASKED)
    assert steps_of(reply) == [("plain", "not_called"), ("nudge", "not_called"), ("schema", "answered")]
    assert all("tool_choice" not in body for body in upstream.bodies)
    assert "tools" not in upstream.bodies[2]


async def test_with_many_attempts_every_step_is_taken_in_order() -> None:
    async with forced([say("no")] * 4 + [AS_JSON], attempts=5) as (provider, upstream, _):
        reply = await provider.complete(ASKED)
    assert [how for how, _ in steps_of(reply)] == ["plain", "nudge", "required", "named", "schema"]
    assert upstream.bodies[3]["tool_choice"] == {"type": "function", "function": {"name": "search_books"}}


async def test_it_may_begin_with_a_choice_and_the_message_as_it_is() -> None:
    async with forced([FOUND], begin="required") as (provider, upstream, _):
        reply = await provider.complete(ASKED)
    assert steps_of(reply) == [("required", "answered")]
    assert upstream.bodies[0]["tool_choice"] == "required"
    assert said(upstream.bodies[0]) == "any books on bees?"


async def test_content_parts_get_the_note_as_a_part_and_no_user_message_gets_one() -> None:
    parts = ({"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:x"}})
    shown = ModelRequest(
        model="m", messages=(Message(role="user", content=read_content(parts)),), tools=ASKED.tools, force=FORCE
    )
    silent = ModelRequest(model="m", messages=ASKED.messages[:1], tools=ASKED.tools, force=FORCE)
    async with forced([say("no"), FOUND] * 2) as (provider, upstream, _):
        await provider.complete(shown)
        await provider.complete(silent)
    content = upstream.bodies[1]["messages"][0]["content"]
    assert content[:2] == list(parts)
    assert "calling one of the tools" in content[2]["text"]
    assert upstream.bodies[3]["messages"][-1]["role"] == "user"


@pytest.mark.proves("R003-17")
async def test_without_force_a_request_goes_through_as_it_is() -> None:
    request = ModelRequest(model="m", messages=ASKED.messages, tools=ASKED.tools)
    async with forced([say("Bees.")]) as (provider, upstream, _):
        reply = await provider.complete(request)
    assert reply.message.text == "Bees."
    assert reply.attempts == ()
    assert len(upstream.bodies) == 1


@pytest.mark.proves("X-33")
@pytest.mark.parametrize(
    "change",
    [{"tools": ()}, {"force": Force(candidates=())}, {"tool_choice": "none"}],
    ids=["no tools", "no real tool", "the caller said none"],
)
async def test_where_nothing_real_is_offered_nothing_is_forced(change: dict[str, Any]) -> None:
    fields = {"model": "m", "messages": ASKED.messages, "tools": ASKED.tools, "force": FORCE, **change}
    async with forced([say("Bees.")], on_not_called="error") as (provider, _, _):
        _, reply = await asked(provider, True, ModelRequest(**fields))
    assert reply.message.text == "Bees."
    assert reply.attempts == ()


@pytest.mark.proves("R003-18")
async def test_an_empty_list_of_calls_is_not_called() -> None:
    message = {"role": "assistant", "content": "Bees.", "tool_calls": []}
    empty = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    async with forced([garbage(msgspec.json.encode(empty)), FOUND]) as (provider, _, _):
        reply = await provider.complete(ASKED)
    assert steps_of(reply) == [("plain", "not_called"), ("required", "answered")]


# ---------------------------------------------------------------- the end of the attempts


@pytest.mark.proves("R003-16", "X-10", "X-17")
@both_ways
@pytest.mark.parametrize("policy", ["retry", "warn", "allow"])
async def test_the_last_words_are_returned(stream: bool, policy: str) -> None:
    async with forced([say("one"), say("two"), say("not JSON")], on_not_called=policy) as (provider, _, _):
        with capture_logs() as logs:
            deltas, reply = await asked(provider, stream)
    assert reply.message.text == "two"
    assert reply.message.tool_calls == ()
    assert steps_of(reply) == [("plain", "not_called"), ("required", "not_called"), ("schema", "not_called")]
    assert "".join(delta.text for delta in deltas) == ("two" if stream else "")
    assert any(entry["event"] == "answered_without_tool" for entry in logs) is (policy == "warn")
    assert reply.usage.input_tokens == 300


@pytest.mark.proves("R003-15")
@both_ways
async def test_error_raises_with_every_attempt(stream: bool) -> None:
    async with forced([say("no")] * 3, on_not_called="error") as (provider, _, _):
        with pytest.raises(ToolNotCalledError, match="no tool was called in 3 attempts") as raised:
            await asked(provider, stream)
    assert [how for how, _ in steps_of(raised.value)] == ["plain", "required", "schema"]


async def test_one_attempt_decides_at_once() -> None:
    async with forced([say("no")], attempts=1, on_not_called="error") as (provider, upstream, _):
        with pytest.raises(ToolNotCalledError):
            await provider.complete(ASKED)
    assert len(upstream.bodies) == 1


async def test_no_attempt_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Forced(OpenAIChat("http://127.0.0.1:9/v1"), attempts=0)


@pytest.mark.proves("R003-14", "R003-20", "X-11")
@both_ways
async def test_the_fallback_gets_the_original_message_and_the_same_tools_and_escalates_by_itself(
    stream: bool,
) -> None:
    kinds = [capabilities_from({"pattern": "other:*", "required": "ignored", "named": "ignored"}), *WORDS_ONLY]
    scripts = [say("no")] * 3, [say("no"), say("no"), AS_JSON]
    async with forced(*scripts, capabilities=kinds, entry={"params": {"temperature": 0.1}}) as (provider, one, two):
        _, reply = await asked(provider, stream)
    assert reply.provider == "other"
    assert reply.model == "m2"
    assert reply.message.tool_calls[0].arguments == '{"title":"bees"}'
    assert [(attempt.provider, attempt.how) for attempt in reply.attempts] == [
        ("openai", "plain"),
        ("openai", "nudge"),
        ("openai", "nudge"),
        ("other", "plain"),
        ("other", "nudge"),
        ("other", "schema"),
    ]
    assert said(two.bodies[0]) == "any books on bees?"
    assert two.bodies[0]["tools"] == one.bodies[0]["tools"]
    assert two.bodies[0]["model"] == "m2"
    assert two.bodies[0]["temperature"] == 0.1
    assert reply.usage.input_tokens == 600


async def test_the_fallback_has_attempts_of_its_own() -> None:
    async with forced([say("no")], [say("no"), FOUND], attempts=1, entry={"attempts": 2}) as (provider, _, _):
        reply = await provider.complete(ASKED)
    assert steps_of(reply) == [("plain", "not_called"), ("plain", "not_called"), ("required", "answered")]


async def test_where_the_fallback_calls_nothing_either_its_words_count() -> None:
    async with forced([say("mine")], [say("theirs")], attempts=1) as (provider, _, _):
        reply = await provider.complete(ASKED)
    assert (reply.provider, reply.message.text) == ("other", "theirs")


@both_ways
async def test_a_provider_that_fails_for_good_leads_to_the_fallback(stream: bool) -> None:
    async with forced([refuse(500)], [FOUND]) as (provider, _, _):
        _, reply = await asked(provider, stream)
    assert reply.provider == "other"
    assert steps_of(reply) == [("plain", "failed"), ("plain", "answered")]


async def test_where_the_fallback_fails_the_first_ones_words_are_returned_or_the_error_says_why() -> None:
    async with forced([say("mine")], [refuse(500)], attempts=1) as (provider, _, _):
        reply = await provider.complete(ASKED)
    assert (reply.provider, reply.message.text) == ("", "mine")
    async with forced([say("mine")], [refuse(500)], attempts=1, on_not_called="error") as (provider, _, _):
        with pytest.raises(ToolNotCalledError) as raised:
            await provider.complete(ASKED)
    assert isinstance(raised.value.__cause__, ProviderUnavailableError)


@both_ways
async def test_retries_below_are_among_the_attempts_and_cost_none(stream: bool) -> None:
    async def at_once(_: float) -> None:
        return

    async with ScriptedUpstream([refuse(500), say("no"), refuse(429), FOUND]) as upstream:
        inner = Retry(OpenAIChat(upstream.base_url, "test-key"), sleep=at_once)
        provider = Forced(inner, attempts=2, capabilities=HONOURS)
        _, reply = await asked(provider, stream)
        await provider.close()
    assert steps_of(reply) == [
        ("plain", "failed"),
        ("plain", "not_called"),
        ("required", "failed"),
        ("required", "answered"),
    ]
    assert reply.usage.input_tokens == 200


@both_ways
async def test_without_fallback_a_failing_provider_is_an_error(stream: bool) -> None:
    async with forced([garbage()]) as (provider, _, _):
        with pytest.raises(ProviderProtocolError):
            await asked(provider, stream)


# ---------------------------------------------------------------- looking for tools


LOOKED = call("request_more_tools", call_id="look1")


@both_ways
async def test_looking_for_tools_is_returned_at_once_and_counts_as_an_attempt(stream: bool) -> None:
    async with forced([LOOKED]) as (provider, _, _):
        deltas, reply = await asked(provider, stream)
    assert reply.message.tool_calls[0].name == "request_more_tools"
    assert steps_of(reply) == [("plain", "answered")]
    assert reply.attempts[0].detail == "called request_more_tools"
    assert any(delta.calls for delta in deltas) is stream


async def test_after_looking_the_next_attempt_is_the_second() -> None:
    looking = Message(role="assistant", tool_calls=(ToolCall(id="look1", name="request_more_tools"),))
    found = Message(role="tool", tool_call_id="look1", content="search_books")
    request = ModelRequest(model="m", messages=(*ASKED.messages, looking, found), tools=ASKED.tools, force=FORCE)
    async with forced([say("no"), say("no")], on_not_called="error") as (provider, upstream, _):
        with pytest.raises(ToolNotCalledError) as raised:
            await provider.complete(request)
    assert [how for how, _ in steps_of(raised.value)] == ["required", "schema"]
    assert "calling one of the tools" in upstream.bodies[0]["messages"][1]["content"]


async def test_looking_in_the_last_attempt_is_not_called() -> None:
    async with forced([LOOKED], attempts=1, on_not_called="error") as (provider, _, _):
        with pytest.raises(ToolNotCalledError):
            await provider.complete(ASKED)
    async with forced([LOOKED], attempts=1) as (provider, _, _):
        assert (await provider.complete(ASKED)).message.tool_calls[0].name == "request_more_tools"


async def test_looking_and_calling_in_one_answer_counts() -> None:
    both = calls(("request_more_tools", None), ("search_books", {"title": "bees"}))
    async with forced([both]) as (provider, _, _):
        assert steps_of(await provider.complete(ASKED)) == [("plain", "answered")]


# ---------------------------------------------------------------- the JSON step


def schema_of(body: Any) -> Any:
    return body["response_format"]["json_schema"]["schema"]


async def test_the_schema_holds_the_candidates_in_portable_words_and_the_prompt_shows_them() -> None:
    async with forced([say("a"), say("b"), AS_JSON]) as (provider, upstream, _):
        await provider.complete(ASKED)
    first, second = schema_of(upstream.bodies[2])["properties"]["call"]["anyOf"]
    assert first["properties"]["tool"] == {"type": "string", "enum": ["search_books"]}
    assert first["properties"]["arguments"] == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    assert second["properties"]["tool"]["enum"] == ["list_loans"]
    assert "request_more_tools" not in msgspec.json.encode(schema_of(upstream.bodies[2])).decode()
    assert "Finds books." in said(upstream.bodies[2])


def definition(name: str, parameters: Any, description: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": ["object", "null"]}}},
    ],
)
async def test_arguments_without_a_portable_form_are_asked_for_as_text(parameters: Any) -> None:
    request = ModelRequest(
        model="m", messages=ASKED.messages, tools=(definition("t", parameters),), force=Force(candidates=("t",))
    )
    answer = say('```json\n{"call": {"tool": "t", "arguments": "{\\"a\\": 1}"}}\n```')
    async with forced([say("a"), say("b"), answer]) as (provider, upstream, _):
        reply = await provider.complete(request)
    assert schema_of(upstream.bodies[2])["properties"]["call"]["properties"]["arguments"]["type"] == "string"
    assert reply.message.tool_calls[0].arguments == '{"a":1}'


async def test_the_schema_is_bounded_to_the_best_candidates() -> None:
    names = [f"tool_{number}" for number in range(40)]
    big = [definition(name, {"type": "object", "properties": {"a": {"type": "string"}}}, "x" * 3_000) for name in names]
    request = ModelRequest(
        model="m",
        messages=ASKED.messages,
        tools=[msgspec.Raw(msgspec.json.encode(each)) for each in big],
        force=Force(candidates=tuple(reversed(names))),
    )
    answer = say('{"call": {"tool": "tool_39", "arguments": {}}}')
    async with forced([say("a"), say("b"), answer]) as (provider, upstream, _):
        reply = await provider.complete(request)
    offered = [
        arm["properties"]["tool"]["enum"][0] for arm in schema_of(upstream.bodies[2])["properties"]["call"]["anyOf"]
    ]
    assert offered == ["tool_39", "tool_38", "tool_37", "tool_36", "tool_35"]
    assert reply.message.tool_calls[0].name == "tool_39"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would search.",
        "[1, 2]",
        '{"call": "search_books"}',
        '{"call": {"tool": "drop_database", "arguments": {}}}',
        '{"call": {"tool": "search_books", "arguments": [1]}}',
        '{"call": {"tool": "search_books", "arguments": "not json"}}',
        '{"call": {"tool": 3, "arguments": {}}}',
        pytest.param("[" * 100_000, id="100,000 brackets"),
    ],
    ids=str,
)
async def test_what_is_not_the_json_that_was_asked_for_is_no_call(text: str) -> None:
    async with forced([say("a"), say("words"), say(text)]) as (provider, _, _):
        reply = await provider.complete(ASKED)
    assert reply.message.text == "words"
    assert reply.attempts[2].detail == "the answer is not the requested JSON"


@both_ways
async def test_the_json_becomes_a_call_that_nobodys_blocks_hold(stream: bool) -> None:
    async with forced([say("a"), say("b"), AS_JSON] * 2) as (provider, _, _):
        deltas, reply = await asked(provider, stream)
        again = (await asked(provider, stream))[1].message.tool_calls[0]
    made = reply.message.tool_calls[0]
    assert (made.name, made.arguments) == ("search_books", '{"title":"bees"}')
    assert made.id.startswith("call_")
    assert made.id != again.id
    assert reply.message == Message(role="assistant", tool_calls=(made,), author="openai:m")
    assert reply.finish_reason == "tool_calls"
    assert reply.raw is None
    if stream:
        assert deltas == [ModelDelta(calls=(CallDelta(index=0, id=made.id, name=made.name, arguments=made.arguments),))]


async def test_the_callers_own_format_and_parallel_calls_give_way_at_that_step() -> None:
    params = {"parallel_tool_calls": False, "response_format": {"type": "text"}, "temperature": 0.5}
    request = ModelRequest(model="m", messages=ASKED.messages, tools=ASKED.tools, force=FORCE, params=params)
    async with forced([say("a"), say("b"), AS_JSON], capabilities=IGNORES) as (provider, upstream, _):
        await provider.complete(request)
    assert upstream.bodies[1]["parallel_tool_calls"] is False
    assert upstream.bodies[2]["response_format"]["type"] == "json_schema"
    assert "parallel_tool_calls" not in upstream.bodies[2]
    assert upstream.bodies[2]["temperature"] == 0.5


# ---------------------------------------------------------------- what may be named


async def test_what_is_held_back_masked_or_not_chosen_is_not_named() -> None:
    request = ModelRequest(
        model="m", messages=ASKED.messages, tools=ASKED.tools, force=FORCE, allowed=("list_loans", "request_more_tools")
    )
    async with forced([say("no")] * 5, attempts=5) as (provider, upstream, _):
        await provider.complete(request)
    assert upstream.bodies[3]["tool_choice"]["function"]["name"] == "list_loans"
    assert upstream.bodies[2]["tool_choice"]["allowed_tools"]["mode"] == "required"
    assert schema_of(upstream.bodies[4])["properties"]["call"]["properties"]["tool"]["enum"] == ["list_loans"]


async def test_the_callers_choice_stays_and_narrows_the_candidates() -> None:
    one = {"type": "function", "function": {"name": "list_loans"}}
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [one]}}
    for choice in (one, some):
        request = ModelRequest(model="m", messages=ASKED.messages, tools=ASKED.tools, force=FORCE, tool_choice=choice)
        async with forced([say("no"), call("list_loans")]) as (provider, upstream, _):
            await provider.complete(request)
        assert upstream.bodies[0]["tool_choice"] == choice
    assert upstream.bodies[1]["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [one]},
    }


# ---------------------------------------------------------------- refusals and thinking


def rejecting(test: Callable[[Any], bool], message: str, *steps: Any, status: int = 400) -> Callable[[Any], Any]:
    """A script: what fits is refused in these words, all else gets the next step."""
    left = list(steps)
    return lambda body: refuse(status, message) if test(body) else left.pop(0)


def has_choice(body: Any) -> bool:
    return body.get("tool_choice") not in (None, "none")


@both_ways
async def test_a_refused_step_costs_no_attempt_and_is_not_tried_again(stream: bool) -> None:
    statistics = StepStatistics()
    script = rejecting(has_choice, "tool_choice is not supported by this model", *[say("no"), say("no"), AS_JSON] * 2)
    async with forced(script, statistics=statistics) as (provider, upstream, _):
        _, first = await asked(provider, stream)
        _, second = await asked(provider, stream)
    assert steps_of(first) == [
        ("plain", "not_called"),
        ("required", "failed"),
        ("named", "failed"),
        ("nudge", "not_called"),
        ("schema", "answered"),
    ]
    assert not any(has_choice(body) for body in upstream.bodies[len(first.attempts) :])
    assert second.message.tool_calls
    assert statistics.counts("openai:m")["required"].refused


async def test_a_refusal_for_another_reason_is_not_held_against_the_step() -> None:
    statistics = StepStatistics()
    script = rejecting(has_choice, "the prompt is too long", say("no"), FOUND)
    async with forced(script, statistics=statistics, attempts=2) as (provider, _, _):
        await provider.complete(ASKED)
    assert not any(counts.refused for counts in statistics.counts("openai:m").values())


async def test_a_plain_request_that_is_refused_is_an_error() -> None:
    async with forced([refuse(400, "tool_choice?")]) as (provider, upstream, _):
        with pytest.raises(ProviderRejectedError):
            await provider.complete(ASKED)
    assert len(upstream.bodies) == 1


THINKS = table(thinks=True, forced_with_thinking=False, json_schema="no")
QUIET = table(
    thinks=True, forced_with_thinking=False, forced_params={"thinking": {"type": "disabled"}}, json_schema="no"
)


async def test_a_model_that_thinks_is_not_forced_where_that_is_an_error() -> None:
    async with forced([say("no"), say("no"), FOUND], capabilities=THINKS) as (provider, upstream, _):
        reply = await provider.complete(ASKED)
    assert [how for how, _ in steps_of(reply)] == ["plain", "nudge", "nudge"]
    assert not any(has_choice(body) for body in upstream.bodies)


async def test_thinking_is_switched_off_for_a_forced_attempt_where_it_can_be() -> None:
    async with forced([say("no"), FOUND], capabilities=QUIET, attempts=2) as (provider, upstream, _):
        reply = await provider.complete(ASKED)
    assert [how for how, _ in steps_of(reply)] == ["plain", "required"]
    assert "thinking" not in upstream.bodies[0]
    assert upstream.bodies[1]["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    ("params", "second"),
    [({"thinking": {"type": "enabled"}}, "nudge"), ({"thinking": {"type": "disabled"}}, "required")],
)
async def test_the_callers_word_on_thinking_holds(params: dict[str, Any], second: str) -> None:
    request = ModelRequest(model="m", messages=ASKED.messages, tools=ASKED.tools, force=FORCE, params=params)
    async with forced([say("no"), FOUND], capabilities=QUIET, attempts=2) as (provider, upstream, _):
        reply = await provider.complete(request)
    assert steps_of(reply)[1][0] == second
    assert upstream.bodies[1]["thinking"] == params["thinking"]


# ---------------------------------------------------------------- what was seen


async def test_a_gentle_step_that_never_works_is_passed_over() -> None:
    statistics = StepStatistics()

    def only_json(body: Any) -> Reply:
        return AS_JSON if "response_format" in body else say("no")

    async with forced(only_json, capabilities=IGNORES, statistics=statistics) as (provider, _, _):
        replies = [await provider.complete(ASKED) for _ in range(8)]
    assert [how for how, _ in steps_of(replies[0])] == ["plain", "nudge", "schema"]
    assert [how for how, _ in steps_of(replies[-1])] == ["plain", "schema"]
    assert statistics.counts("openai:m")["schema"].honoured == 8


async def test_a_schema_that_is_not_honoured_is_left_for_words() -> None:
    async with forced([say("no")] * 60, capabilities=IGNORES, attempts=2) as (provider, _, _):
        replies = [await provider.complete(ASKED) for _ in range(30)]
    assert steps_of(replies[0])[1][0] == "schema"
    assert {steps_of(reply)[1][0] for reply in replies} == {"schema", "nudge"}


async def test_an_answer_cut_by_its_length_says_nothing_of_the_server() -> None:
    statistics = StepStatistics()
    cut_short = say("no", finish_reason="length")
    async with forced([say("no"), cut_short, FOUND], statistics=statistics, attempts=2) as (provider, _, _):
        await provider.complete(ASKED)
    assert "required" not in statistics.counts("openai:m")


async def test_only_so_many_models_are_remembered() -> None:
    statistics = StepStatistics(most=3)
    for number in range(10):
        statistics.record_answer(f"openai:{number}", "required", honoured=True)
    statistics.record_answer("openai:7", "required", honoured=True)
    statistics.record_answer("openai:new", "required", honoured=True)
    assert statistics.counts("openai:8") == {}
    assert statistics.counts("openai:7")["required"].answers == 2


# ---------------------------------------------------------------- streams


async def test_a_held_back_attempt_that_does_not_count_is_never_shown() -> None:
    async with forced([say("Bees are nice."), FOUND]) as (provider, _, _):
        deltas, _ = await asked(provider, stream=True)
    assert not any(delta.text for delta in deltas)
    assert "".join(piece.arguments for delta in deltas for piece in delta.calls) == '{"title":"bees"}'


async def test_an_attempt_that_counts_goes_out_before_it_is_whole() -> None:
    gate = asyncio.Semaphore(3)
    async with forced([paced(FOUND, gate)]) as (provider, _, _), aclosing(provider.stream(ASKED)) as items:
        async with asyncio.timeout(5):
            first = [await anext(items), await anext(items)]
        assert first[1].calls[0].name == "search_books"
        for _ in range(20):
            gate.release()
        rest = [item async for item in items]
    assert isinstance(rest[-1], ModelReply)


async def test_once_shown_a_cut_stream_is_an_error() -> None:
    async with forced([cut(FOUND, after=3)], [FOUND]) as (provider, _, second):
        with pytest.raises(ProviderProtocolError):
            await asked(provider, stream=True)
    assert second.bodies == []


async def test_cancelling_a_held_back_stream_closes_the_connection() -> None:
    begun = asyncio.Event()

    def script(_: Any) -> Any:
        begun.set()
        return endless()

    async with forced(script) as (provider, upstream, _):
        task = asyncio.create_task(asked(provider, stream=True))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()
    assert upstream.requests[0].outcome == "client left"


# ---------------------------------------------------------------- the log


@pytest.mark.proves("R003-10")
async def test_the_log_tells_each_attempt_what_was_missing_the_switch_and_the_success() -> None:
    structlog.reset_defaults()
    async with forced([say("no"), say("no")], [FOUND], attempts=2) as (provider, _, _):
        with capture_logs() as logs:
            await provider.complete(ASKED)
    told = [(entry["log_level"], entry["event"], entry.get("attempt")) for entry in logs]
    assert told == [
        ("debug", "forced_attempt", 1),
        ("warning", "no_tool_called", 1),
        ("debug", "forced_attempt", 2),
        ("warning", "no_tool_called", 2),
        ("warning", "attempts_exhausted", None),
        ("info", "fallback_asked", None),
        ("debug", "forced_attempt", 1),
        ("info", "tool_called", 1),
    ]
    assert logs[0]["provider"] == "openai"
    assert (logs[4]["provider"], logs[4]["attempts"], logs[4]["then"]) == ("openai", 2, "fallback")
    assert logs[5]["provider"] == "other"
    assert logs[7]["tools"] == ["search_books"]
    assert logs[7]["ms"] >= 0


async def test_the_log_tells_that_the_attempts_are_exhausted() -> None:
    async with forced([say("no")] * 3) as (provider, _, _):
        with capture_logs() as logs:
            await provider.complete(ASKED)
    assert ("warning", "attempts_exhausted") in [(entry["log_level"], entry["event"]) for entry in logs]


async def test_models_are_those_of_the_provider() -> None:
    async with forced([]) as (provider, _, _):
        assert [model["id"] for model in await provider.models()] == ["gpt-test"]
