"""Pieces of Gemini's answers: the shapes and the usage that `stream.py` reads for the provider, and whole answers written by the
scripted servers of tests. `who` is the provider's name for error messages."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Message, ModelReply
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.wires.bodies import ENCODER, UNREADABLE, decoded
from toolcaddie.wires.gemini.content import Part, write_parts
from toolcaddie.wires.gemini.errors import error_in, failure
from toolcaddie.wires.gemini.messages import call_arguments


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class WireUsage(msgspec.Struct, rename="camel"):
    prompt_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None
    candidates_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None
    tool_use_prompt_token_count: _Count | None = None


class WireAnswer(msgspec.Struct, rename="camel"):
    candidates: list[Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: WireUsage | None = None
    model_version: str | None = None
    error: Any = None


_ANSWER = msgspec.json.Decoder(WireAnswer)


def read_answer(data: bytes, who: str) -> WireAnswer:
    """Returns the answer in a body or an event. Raises `ProviderProtocolError` if it has another format; if it is an error
    object, the `ProviderError` for that error."""
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE as error:
        failed = error_in(data)
        if failed:
            raise failure(failed, data, who) from error
        decoded(data, who=who)
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error
    if answer.error:
        raise failure(answer.error, data, who)
    return answer


def read_usage(wire: WireUsage) -> Usage:
    """Returns the usage. Gemini counts cached tokens as part of the prompt, and thoughts separately from the answer."""
    thoughts = wire.thoughts_token_count or 0
    return Usage(
        input_tokens=(wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0),
        output_tokens=(wire.candidates_token_count or 0) + thoughts,
        cached_tokens=wire.cached_content_token_count or 0,
        reasoning_tokens=thoughts,
    )


def new_call_id() -> str:
    """Returns an id for a call whose model sent none, because a result must name its call."""
    return f"call_{uuid.uuid4().hex[:24]}"


# ---------------------------------------------------------------- by a scripted server

_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
"""Gemini's word for each of our finish reasons."""


def write_reply(reply: ModelReply, head: AnswerHead) -> bytes:
    """Returns the body of a whole answer."""
    candidate = {**candidate_of(reply_parts(reply.message)), "finishReason": finish_word(reply.finish_reason)}
    model = reply.model or head.model
    return ENCODER.encode(write_answer(candidate, write_usage(reply.usage), head.id, model))


def reply_parts(message: Message) -> list[Part]:
    """Returns an answer's parts: `Message.native` if these blocks are Gemini's, which have no `type`; else new parts for its text
    and calls."""
    if message.native and not any("type" in part for part in message.native):
        return [*message.native]
    return [*write_parts(message), *({"functionCall": _call(call)} for call in message.tool_calls)]


def _call(call: ToolCall) -> JsonObject:
    return {"id": call.id, "name": call.name, "args": call_arguments(call)}


def candidate_of(parts: Sequence[Part]) -> dict[str, Any]:
    """Returns the only candidate (an answer, in Gemini's words) of a reply."""
    return {"content": {"role": "model", "parts": parts}, "index": 0}


def write_answer(candidate: JsonObject, usage: JsonObject, answer_id: str, model: str) -> dict[str, Any]:
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": answer_id}


def finish_word(finish_reason: str) -> str:
    """Returns the API's name for a finish reason."""
    return _FINISH.get(finish_reason, finish_reason)


def write_usage(usage: Usage) -> dict[str, int]:
    """Returns the usage as the API counts it, with thoughts separate from the answer."""
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    return counts
