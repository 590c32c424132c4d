"""The official package as a judge: of what our adapter sends, and of what the scripted server answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import anthropic
import pytest
from anthropic.types import Message as OfficialMessage
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from anthropic.types.model_info import ModelInfo
from pydantic import TypeAdapter

from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.testing import Reply, ScriptedUpstream, calls, refuse
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.wires.chat.content import read_content

pytestmark = pytest.mark.anyio

KEY = "test-key"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
ANSWER = replace(
    calls(("freeze", {"id": 1}), ("pause", None), text="both"),
    reasoning="hm",
    usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=60, written_tokens=30, reasoning_tokens=5),
)
UNTYPED = {"temperature", "top_k", "top_p"}
"""Taken by older models, and in the package's types no more."""

PARAMS = {False: TypeAdapter(MessageCreateParamsNonStreaming), True: TypeAdapter(MessageCreateParamsStreaming)}
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "does it", "parameters": SCHEMA}}


def judged(body: dict[str, Any]) -> Any:
    """The body as the package's types see it: they leave out what they do not know."""
    typed = {name: value for name, value in body.items() if name not in UNTYPED}
    return typed, plain(PARAMS["stream" in body].validate_python(typed))


def plain(value: Any) -> Any:
    """With every lazy list read, so that all of it is validated."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value


HISTORY = (
    Message(role="system", content="be brief"),
    Message(
        role="user",
        content=read_content(
            (
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
                {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,YQ=="}},
            )
        ),
    ),
    Message(
        role="assistant",
        content="hm",
        tool_calls=(ToolCall(id="c1", name="more"), ToolCall(id="c2", name="pause", arguments="{")),
        author="openai:m",
    ),
    Message(role="tool", tool_call_id="c1", content="two more", revealed=("pause",)),
    Message(role="tool", tool_call_id="c2", content="no JSON", is_error=True),
    Message(role="system", content="it is late"),
)
REQUESTS = [
    ModelRequest(model="m", messages=(Message(role="user", content="hi"),)),
    ModelRequest(
        model="m",
        messages=HISTORY,
        tools=(tool("freeze"), tool("more"), tool("pause")),
        deferred=frozenset({"pause"}),
        cache=True,
        tool_choice={"type": "function", "function": {"name": "freeze"}},
        params={
            "parallel_tool_calls": False,
            "temperature": 0.5,
            "stop": ["x"],
            "user": "u",
            "reasoning_effort": "low",
        },
        output_schema=SCHEMA,
    ),
    ModelRequest(
        model="m",
        messages=HISTORY,
        tools=(tool("freeze"), tool("more")),
        tool_choice="auto",
        params={"thinking": {"type": "adaptive", "display": "summarized"}, "max_tokens": 5},
    ),
]


@pytest.mark.parametrize("mid_system", [False, True])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("request_", REQUESTS)
async def test_what_we_send_is_what_the_official_types_know(
    request_: ModelRequest, stream: bool, mid_system: bool
) -> None:
    async with ScriptedUpstream([ANSWER, ANSWER], wire=AnthropicWire(mid_system=mid_system)) as upstream:
        provider = Anthropic(upstream.base_url, KEY, mid_system=mid_system)
        reply = await provider.complete(request_)
        given = [Message(role="tool", tool_call_id=each.id, content="ok") for each in reply.message.tool_calls]
        second = replace(request_, messages=(*request_.messages, reply.message, *given))
        if stream:
            async for _ in provider.stream(second):
                pass
        else:
            await provider.complete(second)
        await provider.close()
        assert upstream.refusals == []
    assert ("stream" in upstream.bodies[1]) is stream
    for body in upstream.bodies:
        sent, seen = judged(body)
        assert seen == sent


def test_the_judge_can_tell() -> None:
    fine = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}
    sent, seen = judged(fine)
    assert seen == sent
    for wrong in ({"messages": [{"role": "robot", "content": "x"}]}, {"messages": [{"role": "user", "content": [{}]}]}):
        with pytest.raises(ValueError):
            judged({**fine, **wrong})
    odd = [{"role": "user", "content": [{"type": "text", "text": "x", "odd": 1}]}]
    sent, seen = judged({**fine, "messages": odd})
    assert seen != sent


def official(upstream: ScriptedUpstream) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=upstream.base_url.removesuffix("/v1"), api_key=KEY, max_retries=0)


def asking() -> dict[str, Any]:
    return {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("redacts", [False, True])
async def test_the_official_client_and_ours_read_the_same_answer(redacts: bool) -> None:
    async with ScriptedUpstream([ANSWER] * 4, wire=AnthropicWire(redacts=redacts)) as upstream:
        client, provider = official(upstream), Anthropic(upstream.base_url, KEY)
        whole = await client.messages.create(**asking())
        async with client.messages.stream(**asking()) as stream:
            streamed = await stream.get_final_message()
        ours = await provider.complete(REQUESTS[0])
        await client.close()
        await provider.close()
    for theirs in (whole, streamed):
        assert [block.type for block in theirs.content] == [block["type"] for block in ours.message.native]
        assert [(b.id[-2:], b.name, b.input) for b in theirs.content if b.type == "tool_use"] == [
            (b["id"][-2:], b["name"], b["input"]) for b in ours.message.native if b["type"] == "tool_use"
        ]
        usage = theirs.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (10, 60, 30)
        assert theirs.stop_reason == "tool_use"


async def test_the_official_client_is_refused_in_a_shape_it_knows() -> None:
    async with ScriptedUpstream([refuse(529)], wire=AnthropicWire()) as upstream:
        client = official(upstream)
        with pytest.raises(anthropic.BadRequestError, match="first message must use"):
            await client.messages.create(**{**asking(), "messages": [{"role": "assistant", "content": "hi"}]})
        with pytest.raises(anthropic.APIStatusError) as raised:
            await client.messages.create(**asking())
        assert raised.value.status_code == 529
        await client.close()


async def test_what_the_scripted_server_sends_is_what_the_official_types_take() -> None:
    wire = AnthropicWire()
    for reply in (ANSWER, Reply(text=""), Reply(text="x", finish_reason="length")):
        OfficialMessage.model_validate(wire.whole(reply, answer_id="1", model="m"), strict=True)
        events = wire.events(reply, answer_id="1", model="m", body={})
        for event in events:
            if b'"ping"' not in event:
                EVENT.validate_json(event, strict=True)
        assert len(events) > 3
    for listed in wire.models(["a"])["data"]:
        ModelInfo.model_validate(listed)
