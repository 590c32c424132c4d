"""A whole answer of chat completions: read from a provider, written by a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server. In all functions
`who` is the provider's name for error messages, and `author` the `provider:model` stored with the message.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Message, ModelReply, RawBody
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, count, decoded, raw_fields
from toolcaddie.wires.chat.content import read_content, write_content
from toolcaddie.wires.chat.messages import CUSTOM, FUNCTION, call_extra, message_extra, write_call, write_usage

# ---------------------------------------------------------------- shapes


class _Function(msgspec.Struct):
    name: str
    arguments: str | None = None


class _Call(msgspec.Struct):
    function: _Function | None = None
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _ReasoningTokens(msgspec.Struct):
    reasoning_tokens: int | None = None


class WireUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None
    completion_tokens_details: _ReasoningTokens | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: WireUsage | None = None
    model: str | None = None


_Shape = TypeVar("_Shape")


def shaped(raw: JsonObject, shape: type[_Shape], who: str) -> _Shape:
    """Returns a decoded body as a `shape`. Raises `ProviderProtocolError`."""
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as error:
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=ENCODER.encode(raw)) from error


# ---------------------------------------------------------------- from a provider


def read_reply(body: bytes, *, who: str, author: str) -> ModelReply:
    """Returns the answer in a body. `ModelReply.raw` has the decoded body."""
    raw = decoded(body, who=who)
    answer = shaped(raw, _Completion, who)
    if not answer.choices:
        raise ProviderProtocolError(f"{who} answered without a choice", body=body)
    choice = answer.choices[0]
    wire = raw["choices"][0]["message"]
    calls = tuple(
        _read_call(call, wire["tool_calls"][position], who)
        for position, call in enumerate(choice.message.tool_calls or ())
    )
    return ModelReply(
        message=Message(
            role="assistant",
            content=read_content(choice.message.content),
            tool_calls=calls,
            extra=message_extra(wire),
            author=author,
        ),
        finish_reason=choice.finish_reason or finish_of(calls),
        usage=read_usage(answer.usage),
        model=answer.model or "",
        raw=RawBody(wire="chat", fields=raw),
    )


def _read_call(call: _Call, wire: JsonObject, who: str) -> ToolCall:
    call_id = call.id or new_call_id()
    if call.function is not None:
        return ToolCall(
            id=call_id,
            name=call.function.name,
            arguments=call.function.arguments or "{}",
            extra=call_extra(wire),
        )
    kind = kind_called(wire)
    if kind == FUNCTION:
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a tool call without a function", body=ENCODER.encode(wire)
        )
    name, text = name_and_input(wire, kind)
    extra = {name: value for name, value in wire.items() if value is not None and name not in ("id", "index")}
    return ToolCall(id=call_id, name=name or kind, arguments=text, extra={**extra, "type": kind})


def kind_called(wire: JsonObject) -> str:
    """Returns the type of a call or of a piece of a call: `function`, or another `type`. Later pieces often omit the type."""
    if wire.get(FUNCTION) is not None:
        return FUNCTION
    kind = wire.get("type")
    if kind and isinstance(kind, str):
        return kind
    return CUSTOM if isinstance(wire.get(CUSTOM), dict) else FUNCTION


def name_and_input(wire: JsonObject, kind: str) -> tuple[str, str]:
    """Returns name and input of a call that is not of a function; empty if missing."""
    inside = wire.get(kind)
    if not isinstance(inside, dict):
        return "", ""
    name, text = inside.get("name"), inside.get("input")
    return name if isinstance(name, str) else "", text if isinstance(text, str) else ""


def read_usage(wire: WireUsage | None) -> Usage:
    if wire is None:
        return Usage()
    cached = wire.prompt_tokens_details.cached_tokens if wire.prompt_tokens_details else None
    reasoning = wire.completion_tokens_details.reasoning_tokens if wire.completion_tokens_details else None
    return Usage(
        input_tokens=count(wire.prompt_tokens),
        output_tokens=count(wire.completion_tokens),
        cached_tokens=count(cached),
        reasoning_tokens=count(reasoning),
    )


def finish_of(calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls else "stop"


def new_call_id() -> str:
    """Returns an id for a call whose server sent none, because a result must name its call."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- by a door


def write_reply(reply: ModelReply, head: AnswerHead) -> bytes:
    return ENCODER.encode(reply_body(reply, head))


def reply_body(reply: ModelReply, head: AnswerHead) -> dict[str, Any]:
    """Returns the body of a whole answer: the fields of the provider's body, if it came over this
    wire, and over them the fields that we write."""
    raw = raw_fields(reply, "chat")
    choices = raw.get("choices")
    choice = dict(choices[0]) if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    provided = choice.get("message")
    message = {
        **(reply.message.extra or {}),
        **(provided if isinstance(provided, dict) else {}),
        "role": "assistant",
        "content": write_content(reply.message.content, role="assistant"),
    }
    message.pop("tool_calls", None)
    if reply.message.tool_calls:
        message["tool_calls"] = [write_call(call) for call in reply.message.tool_calls]
    message.setdefault("refusal", None)
    return {
        "id": f"chatcmpl-{head.id}",
        "object": "chat.completion",
        "created": head.created,
        "model": reply.model or head.model,
        **{name: value for name, value in raw.items() if name not in ("choices", "usage")},
        "choices": [{"logprobs": None, **choice, "index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": usage_of(reply),
    }


def usage_of(reply: ModelReply) -> JsonObject:
    """Returns the field `usage` as the provider wrote it, if the reply has it; else written from `ModelReply.usage`."""
    raw = raw_fields(reply, "chat").get("usage")
    return raw if isinstance(raw, dict) else write_usage(reply.usage)
