"""Every step of the escalation over every wire, each held to what its provider accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from toolcaddie.core.message import Force, Message, ModelReply, ModelRequest
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.providers.wrapping import Entry
from toolcaddie.testing import CHAT, ScriptedUpstream, Wire, call, refuse, say
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.responses import ResponsesWire

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Case:
    provider: Callable[..., Any]
    wire: Callable[[], Wire]
    model: str
    forced: bytes
    """What a request holds that forces a call."""
    named: bytes
    schema: bytes
    thinking: Mapping[str, Any]


CASES = {
    "chat": Case(
        provider=OpenAIChat,
        wire=lambda: CHAT,
        model="gpt-5",
        forced=b'"tool_choice":"required"',
        named=b'"tool_choice":{"type":"function","function":{"name":"search_books"}}',
        schema=b'"json_schema"',
        thinking={"reasoning_effort": "high"},
    ),
    "responses": Case(
        provider=OpenAIResponses,
        wire=ResponsesWire,
        model="gpt-6-sol",
        forced=b'"tool_choice":"required"',
        named=b'"tool_choice":{"type":"function","name":"search_books"}',
        schema=b'"format":{"type":"json_schema"',
        thinking={"reasoning_effort": "high"},
    ),
    "anthropic": Case(
        provider=Anthropic,
        wire=AnthropicWire,
        model="claude-opus-5",
        forced=b'"tool_choice":{"type":"any"}',
        named=b'"tool_choice":{"type":"tool","name":"search_books"}',
        schema=b'"output_config":{"format":{"type":"json_schema"',
        thinking={"thinking": {"type": "enabled", "budget_tokens": 2000}},
    ),
    "gemini": Case(
        provider=Gemini,
        wire=GeminiWire,
        model="gemini-3.8-flash",
        forced=b'"mode":"ANY"',
        named=b'"allowedFunctionNames":["search_books"]',
        schema=b'"responseJsonSchema"',
        thinking={},
    ),
}

BOOKS = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "shelf": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "required": ["title"],
}
TOOLS = tuple(
    {"type": "function", "function": {"name": name, "description": "Looks.", "parameters": parameters}}
    for name, parameters in (("search_books", BOOKS), ("list_loans", {"type": "object", "properties": {}}))
)
AS_JSON = say('{"call": {"tool": "search_books", "arguments": {"title": "bees"}}}')


async def asked(provider: Any, stream: bool, request: ModelRequest) -> ModelReply:
    if not stream:
        return await provider.complete(request)
    items = [item async for item in provider.stream(request)]
    assert isinstance(items[-1], ModelReply)
    return items[-1]


def request_of(case: Case, **more: Any) -> ModelRequest:
    earlier = (
        Message(role="system", content="You know the library."),
        Message(role="user", content="any books on bees?"),
    )
    force = Force(candidates=("search_books", "list_loans"))
    return ModelRequest(model=case.model, messages=earlier, tools=TOOLS, force=force, **more)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_every_step_is_a_request_the_provider_accepts_and_the_call_goes_on(case: Case, stream: bool) -> None:
    steps = [say("no")] * 4 + [AS_JSON, say("Three books.")]
    async with ScriptedUpstream(steps, wire=case.wire()) as upstream:
        inner = case.provider(upstream.base_url, "test-key")
        provider = Forced(inner, attempts=5)
        reply = await asked(provider, stream, request_of(case))
        done = Message(role="tool", tool_call_id=reply.message.tool_calls[0].id, content="3 found")
        request = request_of(case)
        messages = (*request.messages, reply.message, done)
        end = await asked(provider, stream, replace(request, messages=messages, force=None))
        await provider.close()
    assert upstream.refusals == []
    assert [attempt.how for attempt in reply.attempts] == ["plain", "nudge", "required", "named", "schema"]
    assert msgspec.json.decode(reply.message.tool_calls[0].arguments) == {"title": "bees"}
    assert end.message.text == "Three books."
    bodies = [request.raw for request in upstream.requests]
    assert case.forced in bodies[2]
    assert case.named in bodies[3]
    assert case.schema in bodies[4]
    assert reply.usage.input_tokens == 500


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_with_thinking_on_the_escalation_and_what_follows_it_are_accepted_too(case: Case) -> None:
    steps = [replace(say("no"), reasoning="hm")] * 2 + [replace(AS_JSON, reasoning="hm"), say("Three books.")]
    async with ScriptedUpstream(steps, wire=case.wire()) as upstream:
        provider = Forced(case.provider(upstream.base_url, "test-key"), attempts=3)
        request = request_of(case, params=case.thinking)
        reply = await provider.complete(request)
        done = Message(role="tool", tool_call_id=reply.message.tool_calls[0].id, content="3 found")
        messages = (*request.messages, reply.message, done)
        end = await provider.complete(replace(request, messages=messages, force=None))
        await provider.close()
    assert end.message.text == "Three books."
    assert all(attempt.how in ("required", "named") for attempt in reply.attempts if attempt.outcome == "failed")


async def test_a_model_that_takes_no_forced_choice_is_asked_in_words_and_by_schema() -> None:
    async with ScriptedUpstream([say("no"), say("no"), AS_JSON], wire=AnthropicWire()) as upstream:
        provider = Forced(Anthropic(upstream.base_url, "test-key"), attempts=3)
        reply = await provider.complete(replace(request_of(CASES["anthropic"]), model="claude-opus-5-5"))
        await provider.close()
    assert upstream.refusals == []
    assert [attempt.how for attempt in reply.attempts] == ["plain", "nudge", "schema"]


async def test_a_fallback_on_another_wire_gets_the_same_tools() -> None:
    first, second = ScriptedUpstream([refuse(500)]), ScriptedUpstream([call("list_loans")], wire=GeminiWire())
    async with first, second:
        fallback = Entry(provider=Gemini(second.base_url, "test-key"), model="gemini-3.8-flash")
        provider = Forced(OpenAIChat(first.base_url, "test-key"), fallback=fallback)
        reply = await provider.complete(request_of(CASES["chat"], params={"reasoning_effort": "low"}))
        await provider.close()
    assert reply.provider == "gemini"
    assert second.refusals == []
    names = [tool["name"] for tool in second.bodies[0]["tools"][0]["functionDeclarations"]]
    assert names == ["search_books", "list_loans"]
