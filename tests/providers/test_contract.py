"""What we send is what the provider's own description allows, and what the scripted upstream sends is what its package reads."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import yaml
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from toolcaddie.message import Message, ModelRequest
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.schema import wire_definition
from toolcaddie.testing import ScriptedUpstream, calls, say
from toolcaddie.tool_types import Tool, ToolCall

SHARED = Path(os.environ.get("TOOLCADDIE_SHARED", Path(__file__).parents[3] / "shared"))
DESCRIPTION = SHARED / "openai" / "openapi.yml"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not DESCRIPTION.is_file(), reason="the provider's OpenAPI description is not beside the project"
    ),
]

REFERENCE = "#/components/schemas/"


class Schemas:
    """The schemas that are reachable from one, as one JSON Schema. The file is large: only these are parsed."""

    def __init__(self, text: str) -> None:
        parts = re.split(r"^    (\w+):$", text[text.index("\n  schemas:\n") :], flags=re.MULTILINE)
        self._texts = dict(zip(parts[1::2], parts[2::2], strict=True))
        self._found: dict[str, Any] = {}

    def schema_of(self, name: str) -> dict[str, Any]:
        self._collect(name)
        return {"$ref": f"#/$defs/{name}", "$defs": self._found}

    def _collect(self, name: str) -> None:
        if name not in self._found:
            self._found[name] = {}
            self._found[name] = self._plain(yaml.load(self._texts[name], Loader=yaml.CSafeLoader))

    def _plain(self, node: Any) -> Any:
        """OpenAPI 3.0's ways of saying things in JSON Schema's."""
        if isinstance(node, list):
            return [self._plain(item) for item in node]
        if not isinstance(node, dict):
            return node
        plain = {key: self._plain(value) for key, value in node.items() if key not in ("nullable", "discriminator")}
        for bound in ("minimum", "maximum"):
            if isinstance(plain.get(bound), str):  # YAML 1.1 reads 9.2e18 as words
                plain[bound] = float(plain[bound])
        target = plain.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix(REFERENCE)
            self._collect(name)
            plain["$ref"] = f"#/$defs/{name}"
        return {"anyOf": [plain, {"type": "null"}]} if node.get("nullable") is True else plain


@pytest.fixture(scope="module")
def request_schema() -> jsonschema_rs.Draft202012Validator:
    schemas = Schemas(DESCRIPTION.read_text())
    return jsonschema_rs.Draft202012Validator(schemas.schema_of("CreateChatCompletionRequest"))


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
        messages=(Message(role="user", content=({"type": "text", "text": "look"},)),),
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
        ChatCompletion.model_validate(plain.raw, strict=True)
        chunks = [item.raw async for item in provider.stream(REQUESTS[0])]
        ChatCompletion.model_validate(chunks.pop(), strict=True)
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk, strict=True)
        await provider.close()
    assert len(chunks) > 5
