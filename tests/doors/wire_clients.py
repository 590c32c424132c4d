"""Clients of the gateway's three doors for tests: the official SDKs, each behind the same few methods.

A history is the list of messages, or items, that the client of a door sends; an answer is what the client reads from it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"member": {"type": "string"}},
    "required": ["member"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`items`: what the client adds to its history. `usage`: input and output tokens."""

    text: str
    calls: Sequence[Called] = ()
    items: Sequence[Any] = ()
    thinking: str = ""
    usage: tuple[int, int] = (0, 0)
    finish: str = ""
    raw: Any = field(default=None, repr=False)


class ChatClient:
    path = "/v1/chat/completions"

    def __init__(self, base_url: str) -> None:
        self.sdk = openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0, timeout=20)

    def user(self, text: str, *, picture: bool = False) -> list[Any]:
        url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
        return [{"role": "user", "content": [{"type": "text", "text": text}, url] if picture else text}]

    def tools(self, names: Sequence[str]) -> list[Any]:
        return [
            {"type": "function", "function": {"name": name, "description": _words(name), "parameters": SCHEMA}}
            for name in names
        ]

    def result(self, call: Called, text: str, *, picture: bool = False) -> list[Any]:
        return [{"role": "tool", "tool_call_id": call.id, "content": text}]

    async def ask(self, history: Sequence[Any], names: Sequence[str], *, stream: bool = False, **more: Any) -> Answer:
        kwargs: dict[str, Any] = {"model": "test", "messages": list(history), **more}
        if names:
            kwargs["extra_body"] = {"tools": self.tools(names)}  # the SDK takes 0.05 s to copy 300 tools from `tools`
        if stream:
            async with self.sdk.chat.completions.stream(**kwargs, stream_options={"include_usage": True}) as events:
                async for _ in events:
                    pass
                made = await events.get_final_completion()
        else:
            made = await self.sdk.chat.completions.create(**kwargs)
        choice = made.choices[0]
        calls = [
            Called(id=each.id, name=each.function.name, arguments=json.loads(each.function.arguments))
            for each in choice.message.tool_calls or ()
        ]
        dumped = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
        for each in dumped.get("tool_calls", ()):
            each["function"].pop("parsed_arguments", None)
            each.pop("index", None)
        return Answer(
            text=choice.message.content or "",
            calls=calls,
            items=[dumped],
            usage=(made.usage.prompt_tokens, made.usage.completion_tokens),
            finish=choice.finish_reason,
            raw=made,
        )


class ResponsesClient:
    path = "/v1/responses"

    def __init__(self, base_url: str) -> None:
        self.sdk = openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="unused", max_retries=0, timeout=20)

    def user(self, text: str, *, picture: bool = False) -> list[Any]:
        parts: list[Any] = [{"type": "input_text", "text": text}]
        if picture:
            parts.append({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"})
        return [{"role": "user", "content": parts}]

    def tools(self, names: Sequence[str]) -> list[Any]:
        return [
            {"type": "function", "name": name, "description": _words(name), "parameters": SCHEMA, "strict": False}
            for name in names
        ]

    def result(self, call: Called, text: str, *, picture: bool = False) -> list[Any]:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
        output = [{"type": "input_text", "text": text}, image] if picture else text
        return [{"type": "function_call_output", "call_id": call.id, "output": output}]

    async def ask(self, history: Sequence[Any], names: Sequence[str], *, stream: bool = False, **more: Any) -> Answer:
        kwargs: dict[str, Any] = {"model": "test", "input": list(history), "store": False, **more}
        if names:
            kwargs["extra_body"] = {"tools": self.tools(names)}  # the SDK takes 0.1 s to copy 300 tools from `tools`
        if stream:
            async with self.sdk.responses.stream(**kwargs) as events:
                async for _ in events:
                    pass
                made: Any = await events.get_final_response()
        else:
            made = await self.sdk.responses.create(**kwargs)
        calls = [
            Called(id=item.call_id, name=item.name, arguments=json.loads(item.arguments))
            for item in made.output
            if item.type == "function_call"
        ]
        thoughts = [part.text for item in made.output if item.type == "reasoning" for part in item.summary]
        items = [item.model_dump(exclude_none=True) for item in made.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
        return Answer(
            text=made.output_text,
            calls=calls,
            items=items,
            thinking="".join(thoughts),
            usage=(made.usage.input_tokens, made.usage.output_tokens),
            finish=made.status,
            raw=made,
        )


class MessagesClient:
    path = "/v1/messages"

    def __init__(self, base_url: str) -> None:
        self.sdk = anthropic.AsyncAnthropic(base_url=base_url, api_key="unused", max_retries=0, timeout=20)

    def user(self, text: str, *, picture: bool = False) -> list[Any]:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        image = [{"type": "image", "source": source}] if picture else []
        return [{"role": "user", "content": [{"type": "text", "text": text}, *image]}]

    def tools(self, names: Sequence[str]) -> list[Any]:
        return [{"name": name, "description": _words(name), "input_schema": SCHEMA} for name in names]

    def result(self, call: Called, text: str, *, picture: bool = False) -> list[Any]:
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        content = [{"type": "text", "text": text}, *([{"type": "image", "source": source}] if picture else [])]
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": content}]}]

    async def ask(self, history: Sequence[Any], names: Sequence[str], *, stream: bool = False, **more: Any) -> Answer:
        kwargs: dict[str, Any] = {"model": "test", "max_tokens": 1000, "messages": _joined(history), **more}
        if names:
            kwargs["tools"] = self.tools(names)
        if stream:
            async with self.sdk.messages.stream(**kwargs) as events:
                async for _ in events:
                    pass
                made: Any = await events.get_final_message()
        else:
            made = await self.sdk.messages.create(**kwargs)
        calls = [
            Called(id=block.id, name=block.name, arguments=dict(block.input))
            for block in made.content
            if block.type == "tool_use"
        ]
        usage = made.usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return Answer(
            text="".join(block.text for block in made.content if block.type == "text"),
            calls=calls,
            items=[{"role": "assistant", "content": [block.to_dict() for block in made.content]}],
            thinking="".join(block.thinking for block in made.content if block.type == "thinking"),
            usage=(usage.input_tokens + cached, usage.output_tokens),
            finish=made.stop_reason,
            raw=made,
        )


Client = ChatClient | ResponsesClient | MessagesClient
CLIENTS = {"chat": ChatClient, "responses": ResponsesClient, "messages": MessagesClient}


@asynccontextmanager
async def client_of(door: str, base_url: str) -> AsyncIterator[Any]:
    client = CLIENTS[door](base_url)
    try:
        yield client
    finally:
        await client.sdk.close()


def _joined(history: Sequence[Any]) -> list[Any]:
    """Joins the results of one turn, because the API takes them in one message."""
    messages: list[Any] = []
    for message in history:
        if messages and messages[-1]["role"] == message["role"] == "user":
            messages[-1] = {"role": "user", "content": [*messages[-1]["content"], *message["content"]]}
        else:
            messages.append(message)
    return messages


def _words(name: str) -> str:
    return f"{name.replace('_', ' ')} of a member"
