"""What we send is what the provider's own description allows, and what the scripted upstream sends is what its package reads."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.providers.described import described, validator_of
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.testing import ScriptedUpstream, calls, say
from toolcaddie.wires.chat.content import read_content

pytestmark = [pytest.mark.anyio, described]


@pytest.fixture(scope="module")
def request_schema() -> jsonschema_rs.Draft202012Validator:
    return validator_of("CreateChatCompletionRequest")


TOOL = Tool(
    name="freeze", description="Freeze it", input_schema={"type": "object", "properties": {"id": {"type": "integer"}}}
)
USER = Message(role="user", content="hello")
CALL = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="freeze", arguments='{"id":1}'),))
REQUESTS = [
    ModelRequest(model="gpt-test", messages=(USER,)),
    ModelRequest(
        model="gpt-test",
        messages=(
            Message(role="system", content="be brief"),
            USER,
            CALL,
            Message(role="tool", tool_call_id="c1", content="ok"),
        ),
        tools=(wire_definition(TOOL),),
        tool_choice={"type": "function", "function": {"name": "freeze"}},
        params={"temperature": 0, "parallel_tool_calls": False, "max_completion_tokens": 5},
    ),
    ModelRequest(
        model="gpt-test",
        messages=(Message(role="user", content=read_content(({"type": "text", "text": "look"},))),),
        tools=(msgspec.Raw(msgspec.json.encode(wire_definition(TOOL))),),  # type: ignore[arg-type]
        tool_choice="required",
        params={"stream_options": {"include_obfuscation": False}},
    ),
]


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_what_we_send_is_what_the_description_allows(
    stream: bool, request_: ModelRequest, request_schema: jsonschema_rs.Draft202012Validator
) -> None:
    async with ScriptedUpstream([say("fine")]) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key")
        if stream:
            async for _ in provider.stream(request_):
                pass
        else:
            await provider.complete(request_)
        await provider.close()
    assert upstream.bodies[0].get("stream", False) is stream
    request_schema.validate(upstream.bodies[0])


def test_the_check_can_fail(request_schema: jsonschema_rs.Draft202012Validator) -> None:
    fine = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert request_schema.is_valid(fine)
    assert not request_schema.is_valid({**fine, "messages": []})
    assert not request_schema.is_valid({**fine, "messages": [{"role": "robot", "content": "hi"}]})
    assert not request_schema.is_valid({**fine, "tools": [{"type": "function"}]})


async def test_what_the_scripted_upstream_sends_is_what_the_official_types_take() -> None:
    reply = calls(("freeze", {"id": 1}), ("freeze", {"id": 2}), text="both")
    async with ScriptedUpstream([reply, reply]) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key")
        plain = await provider.complete(REQUESTS[0])
        assert plain.raw is not None
        ChatCompletion.model_validate(plain.raw.fields, strict=True)
        chunks: list[Any] = [item.raw async for item in provider.stream(REQUESTS[0])]
        ChatCompletion.model_validate(chunks.pop().fields, strict=True)
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk, strict=True)
        await provider.close()
    assert len(chunks) > 5
