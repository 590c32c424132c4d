"""Whatever type a field has at the Responses and Messages doors, the answer is never a 5xx, and an error has the door's shape.

As test_gateway_types.py does for chat completions; `TOOLCADDIE_ALL_TYPES=1` sends every request.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway
from test_gateway_types import EVERY as EVERY_OF_CHAT
from test_gateway_types import PROVIDERS, VALUES, add_note, lax, places, replaced

from toolcaddie.sources.functions import FunctionSource
from toolcaddie.testing import ScriptedUpstream, say

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
RESPONSES: dict[str, Any] = {
    "model": "gpt-test",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "draw"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "x"}],
            "encrypted_content": "e",
        },
        {"type": "function_call", "call_id": "call_1", "name": "draw", "arguments": '{"what": "a cat"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "drawn"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]},
        {"role": "user", "content": "again"},
    ],
    "tools": [{"type": "function", "name": "draw", "description": "Draw.", "strict": False, "parameters": SCHEMA}],
    "tool_choice": {"type": "function", "name": "draw"},
    "instructions": "Be brief.",
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "max_output_tokens": 100,
    "max_tool_calls": 3,
    "metadata": {"user_id": "7"},
    "parallel_tool_calls": True,
    "previous_response_id": "resp_1",
    "conversation": {"id": "conv_1"},
    "prompt": {"id": "p", "variables": {"a": "b"}},
    "background": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}, "verbosity": "low"},
    "truncation": "auto",
    "store": False,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_logprobs": 0,
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "safety_identifier": "me",
    "user": "me",
}
MESSAGES: dict[str, Any] = {
    "model": "claude-test",
    "max_tokens": 100,
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "draw", "cache_control": {"type": "ephemeral"}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {
                    "type": "document",
                    "title": "a",
                    "citations": {"enabled": True},
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "x", "signature": "s"},
                {"type": "text", "text": "Wait."},
                {"type": "tool_use", "id": "toolu_1", "name": "draw", "input": {"what": "a cat"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "drawn"}],
                }
            ],
        },
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "again"},
    ],
    "tools": [{"name": "draw", "description": "Draw.", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tool_choice": {"type": "tool", "name": "draw", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "7"},
    "stop_sequences": ["END"],
    "stream": True,
    "temperature": 0.5,
    "top_k": 3,
    "top_p": 0.5,
    "service_tier": "auto",
    "container": {"id": "c", "skills": [{"type": "anthropic", "skill_id": "x"}]},
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "mcp_servers": [{"type": "url", "url": "https://example.com", "name": "m"}],
}
DOORS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "responses": ("/v1/responses", RESPONSES, ("model", "input", "tools")),
    "messages": ("/v1/messages", MESSAGES, ("model", "max_tokens", "messages", "tools")),
    "count": ("/v1/messages/count_tokens", MESSAGES, ("model", "messages", "tools")),
}
CELLS = [
    pytest.param(door, kind, id=f"{door}-{kind}")
    for door in DOORS
    for kind in sorted(PROVIDERS)
    if (door, kind) != ("count", "anthropic")  # passed on to the upstream, and the scripted one counts nothing
]
EVERY = 1 if EVERY_OF_CHAT == 1 else 4 * EVERY_OF_CHAT  # more doors and larger requests, so a smaller part of each
SERVER_ERRORS = ('"server_error"', '"api_error"', '"internal_error"')


def bodies(full: dict[str, Any], needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Small valid requests with one more field, that field or something in it replaced by each value."""
    core = {name: full[name] for name in needed}
    for name, value_of_full in full.items():
        base = core if name in needed else {**core, name: value_of_full}
        for at, value in itertools.product((at for at in places(base) if at[0] == name), VALUES):
            yield f"{'.'.join(map(str, at))} = {value!r}", replaced(base, at, value)


def complaint(door: str, status: int, text: str) -> str | None:
    """The fault of an answer: a 5xx, an error inside a stream that is the server's own, or an error of another door's shape."""
    if '"upstream_failed"' in text:  # the scripted server stumbled itself
        return None
    if status >= 500 or any(mark in text for mark in SERVER_ERRORS):
        return f"{status} {text[:300]}"
    if status >= 400:
        whole = json.loads(text)
        if (door != "responses") != (whole.get("type") == "error") or not whole["error"]["message"]:
            return f"the error has not the shape of the door: {text[:300]}"
    return None


@pytest.mark.parametrize(("door", "kind"), CELLS)
async def test_no_type_of_any_field_makes_a_5xx(door: str, kind: str, tmp_path: Path) -> None:
    path, full, needed = DOORS[door]
    wire, provider = PROVIDERS[kind]
    offset = sorted(PROVIDERS).index(kind)
    failures: list[str] = []
    async with (
        ScriptedUpstream(lambda _: say("fine"), wire=lax(wire)) as upstream,
        gateway(tmp_path, provider(upstream.base_url), sources=[FunctionSource("notes", [add_note])]) as served,
        aiohttp.ClientSession() as session,
    ):
        for place, (words, body) in enumerate(bodies(full, needed)):
            if (place + offset) % EVERY:
                continue
            asked = body if "stream" in body or place % 2 else {**body, "stream": True}
            async with session.post(f"{served.base_url}{path}", json=asked) as answer:
                fault = complaint(door, answer.status, await answer.text())
            if fault:
                failures.append(f"{words}: {fault}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:60])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tool_choice": {"type": {}}}, "tool_choice"),
    ({"tool_choice": {"type": ["auto"]}}, "tool_choice"),
    ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": [{"type": ["text"]}]}]}, "messages.0.content.0.type"),
]


@pytest.mark.parametrize("kind", ["anthropic", "chat"])
@pytest.mark.parametrize(("field", "named"), WRONG, ids=["choice-object", "choice-list", "block-empty", "block-list"])
async def test_a_wrong_type_at_the_messages_door_is_a_400_that_names_it(
    field: dict[str, Any], named: str, kind: str, tmp_path: Path
) -> None:
    wire, provider = PROVIDERS[kind]
    core = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "draw"}],
        "tools": MESSAGES["tools"],
    }
    async with (
        ScriptedUpstream(lambda _: say("fine"), wire=wire()) as upstream,
        gateway(tmp_path, provider(upstream.base_url)) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/messages", json={**core, **field}) as answer,
    ):
        body = await answer.json()
        assert (answer.status, body["type"], body["error"]["type"]) == (400, "error", "invalid_request_error")
        assert named in body["error"]["message"]
        assert not upstream.bodies
