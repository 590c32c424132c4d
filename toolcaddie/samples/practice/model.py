"""The practice model: a provider that follows rules instead of a language model, so that everything can be tried without a key.

It turns a `ModelRequest` into a `ModelReply`, whole or streamed; the module `steps` chooses the answer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest, message_tokens
from toolcaddie.core.schema import canonical_json, estimate_tokens
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.ports import Provider
from toolcaddie.samples.practice.answer import signed
from toolcaddie.samples.practice.calls import Call, Say, Step
from toolcaddie.samples.practice.scene import scene_of
from toolcaddie.samples.practice.steps import forced_step, next_step, only_words

MODEL = "practice"

_PIECE = 24
"""Characters of a streamed piece. They are few, so that callers get several pieces, as in real streams."""


class PracticeModel:
    """A `Provider` that follows rules. `today` returns the date, unless the system prompt states it."""

    name = MODEL

    def __init__(self, *, model: str = MODEL, today: Callable[[], date] = date.today) -> None:
        self._model = model
        self._today = today

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await asyncio.to_thread(self._reply, request)

    def _reply(self, request: ModelRequest) -> ModelReply:
        step = _decide(request, self._today())
        message = _message(request, step)
        finish = "tool_calls" if message.tool_calls else "stop"
        model = request.model or self._model
        return ModelReply(message=message, finish_reason=finish, usage=_usage(request, message), model=model)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        reply = await self.complete(request)
        for piece in _pieces(reply.message.text):
            yield ModelDelta(text=piece)
        for index, call in enumerate(reply.message.tool_calls):
            yield ModelDelta(calls=(CallDelta(index=index, id=call.id, name=call.name),))
            for piece in _pieces(call.arguments):
                yield ModelDelta(calls=(CallDelta(index=index, arguments=piece),))
        yield reply

    async def models(self) -> Sequence[JsonObject]:
        return [{"id": self._model, "object": "model", "created": 0, "owned_by": "toolcaddie"}]

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> Provider:
    """Makes the provider of the plugin `practice`. It reaches no server, so address and key are not used."""
    return PracticeModel(model=model or MODEL)


def _decide(request: ModelRequest, today: date) -> Step:
    """Returns the text or the tool calls of the answer, as the request's tool choice allows."""
    mode, names = _choice(request.tool_choice)
    scene = scene_of(request, today=today, only=names)
    if mode == "none" or not request.tools:
        return only_words(scene)
    if mode == "required":
        return forced_step(scene, next(iter(names)) if names and len(names) == 1 else None)
    return next_step(scene)


def _choice(choice: Any) -> tuple[str, frozenset[str] | None]:
    """Returns the mode of a tool choice in OpenAI's forms, and the names that it allows (None: all)."""
    if not isinstance(choice, Mapping):
        return str(choice or "auto"), None
    allowed = choice.get("allowed_tools")
    if isinstance(allowed, Mapping):
        return str(allowed.get("mode", "auto")), frozenset(map(_name, allowed.get("tools") or ()))
    return ("required", frozenset({name})) if (name := _name(choice)) else (str(choice.get("type", "auto")), None)


def _name(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return str(function.get("name", "")) if isinstance(function, Mapping) else ""


def _message(request: ModelRequest, step: Step) -> Message:
    if isinstance(step, Say):
        return Message(role="assistant", content=signed(step.text))
    calls = tuple(_tool_call(request, index, call) for index, call in enumerate(step))
    return Message(role="assistant", content=None, tool_calls=calls)


def _tool_call(request: ModelRequest, index: int, call: Call) -> ToolCall:
    arguments = msgspec.json.encode(call.arguments).decode()
    # The id contains the place in the conversation, because an equal call in a later turn needs another id.
    place = f"{len(request.messages)}/{index}/{call.name}/{arguments}"
    return ToolCall(id=f"call_{hashlib.sha256(place.encode()).hexdigest()[:24]}", name=call.name, arguments=arguments)


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _usage(request: ModelRequest, reply: Message) -> Usage:
    tools = sum(estimate_tokens(canonical_json(tool)) for tool in request.tools)
    return Usage(input_tokens=tools + message_tokens(request.messages), output_tokens=message_tokens([reply]))
