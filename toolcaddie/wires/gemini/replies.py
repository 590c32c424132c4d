"""A whole answer of Gemini: read from a provider."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import msgspec

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Usage
from toolcaddie.wires.bodies import UNREADABLE, decoded
from toolcaddie.wires.gemini.errors import broken_off, error_in


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
    """Raises `ProviderProtocolError` for what is no answer, and for an error in its place what that means."""
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE as error:
        found = error_in(data)
        if found:
            raise broken_off(found, data, who) from error
        decoded(data, who=who)
        raise ProviderProtocolError(f"{who} answered in an unknown shape: {error}", body=data) from error
    if answer.error:
        raise broken_off(answer.error, data, who)
    return answer


def read_usage(wire: WireUsage) -> Usage:
    """Gemini counts cached tokens among those of the prompt, and thoughts beside those of the answer."""
    thoughts = wire.thoughts_token_count or 0
    return Usage(
        input_tokens=(wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0),
        output_tokens=(wire.candidates_token_count or 0) + thoughts,
        cached_tokens=wire.cached_content_token_count or 0,
        reasoning_tokens=thoughts,
    )


def new_call_id() -> str:
    """For models that send none: a result must say which call it answers."""
    return f"call_{uuid.uuid4().hex[:24]}"
