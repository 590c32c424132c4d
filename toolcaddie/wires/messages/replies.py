"""A whole answer of the Messages API: read from a provider, written by a door.

Door: the side where clients send requests to us. Provider: the side where we send requests to a model server. In all functions
`who` is the provider's name for error messages, and `author` the `provider:model` stored with the message.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Message, ModelReply, RawBody
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, UNREADABLE, count, decoded, other_fields, raw_fields, with_unknown
from toolcaddie.wires.messages.content import MESSAGES, Block, write_blocks
from toolcaddie.wires.messages.errors import failure
from toolcaddie.wires.messages.messages import write_call

CALL, TEXT, THINKING = "tool_use", "text", "thinking"
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Our finish reason (OpenAI's word) for each of the API's; a reason that is not here keeps its name."""
OURS = frozenset({"id", "type", "role", "model", "content"})
"""Fields that a door writes itself and never passes on from a provider."""
_ENDING = frozenset({"stop_reason", "stop_sequence", "usage"})


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class WireUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class WireAnswer(msgspec.Struct):
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: WireUsage | None = None
    model: str | None = None
    error: Any = None


_Shape = TypeVar("_Shape")
_ANSWER = msgspec.json.Decoder(WireAnswer)


def read_reply(body: bytes, *, who: str, author: str) -> ModelReply:
    """Returns the answer in a body. Raises `ProviderProtocolError` if there is none; if the body is an error, the
    `ProviderError` for that error."""
    answer = shaped(body, _ANSWER, who)
    if answer.error:
        raise failure(answer.error, body, who)
    if answer.content is None or (not answer.content and answer.stop_reason is None):
        raise ProviderProtocolError(f"{who} answered without content", body=body)
    calls = tuple(_whole_call(block, who) for block in answer.content if block_kind(block, who) == CALL)
    text = "".join(_text_of(block, who) for block in answer.content if block["type"] == TEXT)
    return made_reply(
        text,
        calls,
        answer.content,
        author=author,
        reason=answer.stop_reason,
        usage=answer.usage,
        model=answer.model,
        fields=partial(other_fields, body, OURS),
    )


def made_reply(
    text: str,
    calls: tuple[ToolCall, ...],
    native: list[dict[str, Any]],
    *,
    author: str,
    reason: str | None,
    usage: WireUsage | None,
    model: str | None,
    fields: JsonObject | Callable[[], JsonObject],
) -> ModelReply:
    message = Message(
        role="assistant",
        content=text if text or not calls else None,
        tool_calls=calls,
        native=tuple(native),
        author=author,
    )
    finish = ("tool_calls" if calls else "stop") if reason is None else _FINISH.get(reason, reason)
    raw = RawBody(wire="messages", fields=fields)
    return ModelReply(message=message, finish_reason=finish, usage=read_usage(usage), model=model or "", raw=raw)


def _whole_call(block: dict[str, Any], who: str) -> ToolCall:
    block["id"], name = call_identity(block, who)
    return ToolCall(id=block["id"], name=name, arguments=ENCODER.encode(call_input(block, who)).decode())


def call_identity(block: dict[str, Any], who: str) -> tuple[str, str]:
    """Returns id and name of a call. A call without an id gets one, because a result must name its call."""
    call_id, name = block.get("id") or f"call_{uuid.uuid4().hex[:24]}", block.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str) or not name:
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a tool_use without the name of its tool", body=ENCODER.encode(block)
        )
    return call_id, name


def call_input(block: dict[str, Any], who: str) -> dict[str, Any]:
    """Returns the arguments of a call."""
    arguments = block.get("input")
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: the input of a tool_use is not an object", body=ENCODER.encode(block)
        )
    return arguments


def block_kind(block: dict[str, Any], who: str) -> str:
    kind = block.get("type")
    if not isinstance(kind, str):
        raise ProviderProtocolError(f"{who} answered with a block without a type", body=ENCODER.encode(block))
    return kind


def _text_of(block: dict[str, Any], who: str) -> str:
    text = block.get("text")
    if not isinstance(text, str):
        raise ProviderProtocolError(
            f"{who} answered in an unknown shape: a text block without text", body=ENCODER.encode(block)
        )
    return text


def read_usage(wire: WireUsage | None) -> Usage:
    """Returns the usage. The API counts input read from or written to the prompt cache separately from other input;
    `Usage.input_tokens` includes it."""
    if wire is None:
        return Usage()
    read, written = count(wire.cache_read_input_tokens), count(wire.cache_creation_input_tokens)
    return Usage(
        input_tokens=count(wire.input_tokens) + read + written,
        output_tokens=count(wire.output_tokens),
        cached_tokens=read,
        written_tokens=written,
        reasoning_tokens=count(wire.output_tokens_details.thinking_tokens) if wire.output_tokens_details else 0,
    )


def shaped(data: bytes, decoder: msgspec.json.Decoder[_Shape], who: str) -> _Shape:
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        decoded(data, who=who)  # raises a better message for text that is not a JSON object
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error


# ---------------------------------------------------------------- by a door


def write_reply(reply: ModelReply, head: AnswerHead) -> bytes:
    """Returns the body of a whole answer."""
    body = {
        **answer_head(head, model=reply.model),
        "content": reply_blocks(reply.message),
        **stop_fields(reply),
        "usage": reply_usage(reply),
        **unknown_fields(reply),
    }
    return ENCODER.encode(body)


def unknown_fields(reply: ModelReply) -> JsonObject:
    """Returns the fields of a provider's answer that a door passes on; none if the answer came over another wire."""
    return {name: value for name, value in raw_fields(reply, "messages").items() if name not in _ENDING}


def stop_fields(reply: ModelReply) -> JsonObject:
    """Returns the fields about the reason to stop. If the answer came over this wire, they are the provider's own and say more,
    such as the stop sequence."""
    theirs = raw_fields(reply, "messages")
    reason = theirs.get("stop_reason")
    if isinstance(reason, str) and _FINISH.get(reason, reason) == reply.finish_reason:
        return {"stop_reason": reason, "stop_sequence": theirs.get("stop_sequence")}
    return {"stop_reason": stop_word(reply.finish_reason), "stop_sequence": None}


def reply_usage(reply: ModelReply) -> JsonObject:
    """Returns the usage. If the answer came over this wire, it includes the provider's further fields."""
    return with_unknown(write_usage(reply.usage), raw_fields(reply, "messages").get("usage"))


def answer_head(head: AnswerHead, *, model: str = "") -> dict[str, Any]:
    return {
        "id": f"msg_{head.id}",
        "type": "message",
        "role": "assistant",
        "model": model or head.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def reply_blocks(message: Message) -> list[Block]:
    """Returns an answer's blocks: `Message.native`, with the ids of the calls, if these blocks are of this API; else new blocks
    for text and calls."""
    calls = iter(message.tool_calls)
    if message.native and (message.author == MESSAGES or all(map(_is_own, message.native))):
        own = [dict(block) for block in message.native]
        if sum(block["type"] == CALL for block in own) == len(message.tool_calls):
            return [{**block, "id": next(calls).id} if block["type"] == CALL else block for block in own]
    return [*write_blocks(message, "content"), *map(write_call, message.tool_calls)]


def _is_own(block: JsonObject) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and (kind in _OWN_KINDS or kind.endswith("_tool_result"))


_OWN_KINDS = frozenset({TEXT, THINKING, CALL, "redacted_thinking", "server_tool_use"})


def stop_word(finish_reason: str) -> str:
    """Returns the API's name for a finish reason."""
    return _STOP.get(finish_reason, finish_reason)


_STOP = {
    "stop": "end_turn",
    "tool_calls": CALL,
    "function_call": CALL,
    "length": "max_tokens",
    "content_filter": "refusal",
}


def write_usage(usage: Usage) -> dict[str, Any]:
    """Returns the usage as the API counts it, with cached input, read and written, separate from other input."""
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.written_tokens,
        "cache_creation_input_tokens": usage.written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
