"""The clients of `benchmarks.provider`: our four adapters and the official packages of the same APIs, with equal requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.ports import Provider
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses

Call = Callable[[], Awaitable[Any]]

KINDS = ("plain", "stream", "tools")
"""Kinds of request: one with a whole answer; one with a stream of 20 events, read to its end; one with 24 tools and a whole
answer."""

_KEY = "sk-benchmark"
_WORDS = "freeze John's membership"
_TOOLS = 24
_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two clients of one wire (API), our adapter and the official package, each with a call for every kind of request."""

    wire: str
    ours: Provider
    package: str
    theirs: dict[str, Call]
    close: Callable[[], Awaitable[Any]]
    """Closes the official client."""

    def our_calls(self) -> dict[str, Call]:
        return {
            "plain": lambda: self.ours.complete(_PLAIN),
            "stream": lambda: _read(self.ours),
            "tools": lambda: self.ours.complete(_WITH_TOOLS),
        }


def contests(root: str) -> tuple[Contest, ...]:
    """Returns all contests, with clients of the server at `root`. Call it inside the running loop."""
    return _chat(root), _responses(root), _anthropic(root), _gemini(root)


async def _read(provider: Provider) -> None:
    async for _ in provider.stream(_PLAIN):
        pass


async def _drained(stream: Awaitable[Any]) -> None:
    async for _ in await stream:
        pass


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "member_id": {"type": "integer", "description": "The number on the member's card."},
        "days": {"type": "integer", "minimum": 1, "maximum": 365, "description": "How long, in days."},
        "reason": {"type": "string", "enum": ["holiday", "illness", "other"], "description": "Why."},
    },
    "required": ["member_id"],
}
_FUNCTIONS: list[dict[str, Any]] = [
    {"name": f"tool_{number}", "description": f"Does the thing of number {number}.", "parameters": _SCHEMA}
    for number in range(_TOOLS)
]
_MESSAGES: list[Any] = [{"role": "user", "content": _WORDS}]
_PLAIN = ModelRequest(model="bench", messages=(Message(role="user", content=_WORDS),))
_WITH_TOOLS = ModelRequest(
    model="bench",
    messages=(Message(role="user", content=_WORDS),),
    tools=tuple({"type": "function", "function": function} for function in _FUNCTIONS),
)


def _chat(root: str) -> Contest:
    client = openai.AsyncOpenAI(base_url=f"{root}/v1", api_key=_KEY)
    create: Any = client.chat.completions.create
    arguments: dict[str, Any] = {"model": "bench", "messages": _MESSAGES}
    return Contest(
        wire="chat completions",
        ours=OpenAIChat(f"{root}/v1", _KEY),
        package="openai",
        theirs={
            "plain": lambda: create(**arguments),
            "stream": lambda: _drained(create(**arguments, stream=True)),
            "tools": lambda: create(**arguments, tools=list(_WITH_TOOLS.tools)),
        },
        close=client.close,
    )


def _responses(root: str) -> Contest:
    client = openai.AsyncOpenAI(base_url=f"{root}/v1", api_key=_KEY)
    create: Any = client.responses.create
    arguments: dict[str, Any] = {"model": "bench", "input": _MESSAGES, "store": False}
    tools = [{"type": "function", **function} for function in _FUNCTIONS]
    return Contest(
        wire="responses",
        ours=OpenAIResponses(f"{root}/v1", _KEY),
        package="openai",
        theirs={
            "plain": lambda: create(**arguments),
            "stream": lambda: _drained(create(**arguments, stream=True)),
            "tools": lambda: create(**arguments, tools=tools),
        },
        close=client.close,
    )


def _anthropic(root: str) -> Contest:
    client = anthropic.AsyncAnthropic(base_url=root, api_key=_KEY)
    create: Any = client.messages.create
    arguments: dict[str, Any] = {"model": "bench", "max_tokens": _MAX_TOKENS, "messages": _MESSAGES}
    tools = [{"name": each["name"], "description": each["description"], "input_schema": _SCHEMA} for each in _FUNCTIONS]
    return Contest(
        wire="messages",
        ours=Anthropic(f"{root}/v1", _KEY),
        package="anthropic",
        theirs={
            "plain": lambda: create(**arguments),
            "stream": lambda: _drained(create(**arguments, stream=True)),
            "tools": lambda: create(**arguments, tools=tools),
        },
        close=client.close,
    )


def _gemini(root: str) -> Contest:
    client = genai.Client(api_key=_KEY, http_options=types.HttpOptions(base_url=root))
    models: Any = client.aio.models
    arguments: dict[str, Any] = {"model": "bench", "contents": [{"role": "user", "parts": [{"text": _WORDS}]}]}
    declared = [
        {"name": each["name"], "description": each["description"], "parameters_json_schema": _SCHEMA}
        for each in _FUNCTIONS
    ]
    config = {"tools": [{"function_declarations": declared}], "automatic_function_calling": {"disable": True}}
    return Contest(
        wire="generate content",
        ours=Gemini(f"{root}/v1beta", _KEY),
        package="google-genai",
        theirs={
            "plain": lambda: models.generate_content(**arguments),
            "stream": lambda: _drained(models.generate_content_stream(**arguments)),
            "tools": lambda: models.generate_content(**arguments, config=config),
        },
        close=client.aio.aclose,
    )
