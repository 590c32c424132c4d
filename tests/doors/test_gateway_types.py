"""Whatever type a field of a chat request has, the gateway answers with a status of the client's making, never a 5xx.

Every field of a full request, at every depth, is replaced by a value of every JSON type, before each kind of provider. A run
of the tests takes a part of these requests; `TOOLCADDIE_ALL_TYPES=1` takes all (some minutes).
"""

from __future__ import annotations

import copy
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.samples.practice import PracticeModel
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, say
from toolcaddie.testing.anthropic import AnthropicWire
from toolcaddie.testing.chat import ChatWire
from toolcaddie.testing.gemini import GeminiWire
from toolcaddie.testing.responses import ResponsesWire

pytestmark = pytest.mark.anyio

PROVIDERS: dict[str, tuple[Callable[[], Any], Callable[[str], Any]]] = {
    "chat": (ChatWire, lambda url: OpenAIChat(url, "test-key")),
    "anthropic": (AnthropicWire, lambda url: Anthropic(url, "test-key")),
    "gemini": (GeminiWire, lambda url: Gemini(url, "test-key")),
    "responses": (ResponsesWire, lambda url: OpenAIResponses(url, "test-key")),
    "practice": (ChatWire, lambda url: PracticeModel()),
}

VALUES: list[Any] = [None, True, -1, 1.5, "", "\x00é", [], [None], ["x"], [{}], {}, {"x": 1}]
"""One or more of each JSON type."""

FULL: dict[str, Any] = {
    "model": "gpt-test",
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "add a note"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Wait.",
            "refusal": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "draw", "arguments": '{"what": "a cat"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "drawn"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "audio": {"id": "a"}},
        {"role": "user", "content": "again", "name": "u"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "draw",
                "description": "Draw a picture.",
                "strict": False,
                "parameters": {
                    "type": "object",
                    "properties": {"what": {"type": "string", "description": "What to draw."}},
                    "required": ["what"],
                },
            },
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "draw"}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "n": 1,
    "stop": ["END"],
    "user": "me",
    "metadata": {"user_id": "7"},
    "max_tokens": 100,
    "max_completion_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.5,
    "seed": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {"50256": -100},
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "modalities": ["text"],
    "verbosity": "low",
    "reasoning_effort": "low",
    "parallel_tool_calls": True,
    "prompt_cache_key": "k",
    "safety_identifier": "me",
    "service_tier": "auto",
    "store": False,
    "prediction": {"type": "content", "content": "x"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "functions": [{"name": "f", "parameters": {}}],
    "function_call": "auto",
    "reasoning": {"effort": "low"},
    "text": {"verbosity": "low"},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low"},
    "system": "x",
    "cache_control": {"type": "ephemeral"},
    "generationConfig": {"topK": 3},
    "thinkingConfig": {"thinkingBudget": 1},
    "safetySettings": [{"category": "c", "threshold": "t"}],
}


@tool
def add_note(text: str) -> str:
    """Add a note."""
    return f"noted: {text}"


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a JSON value, the outermost first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*at, key)
        yield from places(item, (*at, key))


def replaced(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    inside = changed
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = value
    return changed


NEEDED = ("model", "messages", "tools")
EVERY = 1 if os.environ.get("TOOLCADDIE_ALL_TYPES") else 12


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Small valid requests with one more field, that field or something in it replaced by each value."""
    core = {name: FULL[name] for name in NEEDED}
    for name, full in FULL.items():
        base = core if name in NEEDED else {**core, name: full}
        for at, value in itertools.product((at for at in places(base) if at[0] == name), VALUES):
            yield f"{'.'.join(map(str, at))} = {value!r}", replaced(base, at, value)


def lax(wire: type[Any]) -> Any:
    """A server that refuses nothing, so that answers to odd requests are read as well."""
    return type(f"Lax{wire.__name__}", (wire,), {"refusal_of": lambda self, path, body: None})()


@pytest.mark.parametrize(("number", "kind"), list(enumerate(sorted(PROVIDERS))), ids=sorted(PROVIDERS))
async def test_no_type_of_any_field_makes_a_5xx(number: int, kind: str, tmp_path: Path) -> None:
    wire, provider = PROVIDERS[kind]
    failures: list[str] = []
    async with (
        ScriptedUpstream(lambda _: say("fine"), wire=lax(wire)) as upstream,
        gateway(tmp_path, provider(upstream.base_url), sources=[FunctionSource("notes", [add_note])]) as served,
        aiohttp.ClientSession() as session,
    ):
        url = f"{served.base_url}/v1/chat/completions"
        for place, (words, body) in enumerate(bodies()):
            if (place + number) % EVERY:
                continue
            asked = body if "stream" in body or place % 2 else {**body, "stream": True}
            async with session.post(url, json=asked) as answer:
                text = await answer.text()
                upstreams_own = '"upstream_failed"' in text  # the scripted server stumbled itself
                if (answer.status >= 500 and not upstreams_own) or '"server_error"' in text:
                    failures.append(f"{words}: {answer.status} {text[:200]}")
    assert not failures, "\n".join(failures[:40])


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"stream_options": "x", "stream": True}, "stream_options"),
    ("chat", {"stream_options": ["x"]}, "stream_options"),
    ("chat", {"stream_options": {"include_usage": "yes"}, "stream": True}, "stream_options.include_usage"),
    ("chat", {"stream": "yes"}, "stream"),
    ("chat", {"tool_choice": ["draw"]}, "tool_choice"),
    ("chat", {"n": True}, "n"),
    ("gemini", {"reasoning_effort": ["low"]}, "reasoning_effort"),
    ("responses", {"messages": [{"role": "user", "content": [{"type": ["text"]}]}]}, "messages"),
]


@pytest.mark.parametrize(("kind", "field", "param"), WRONG, ids=[f"{kind}-{param}" for kind, _, param in WRONG])
async def test_a_field_of_a_wrong_type_is_a_400_that_names_it(
    kind: str, field: dict[str, Any], param: str, tmp_path: Path
) -> None:
    wire, provider = PROVIDERS[kind]
    core = {name: FULL[name] for name in ("model", "tools")} | {"messages": [{"role": "user", "content": "draw"}]}
    async with (
        ScriptedUpstream(lambda _: say("fine"), wire=wire()) as upstream,
        gateway(tmp_path, provider(upstream.base_url)) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/chat/completions", json={**core, **field}) as answer,
    ):
        error = (await answer.json())["error"]
        assert answer.status == 400
        assert error["param"] == param
        assert not upstream.bodies
