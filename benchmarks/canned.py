"""The same short answer in the formats of four APIs, whole and as a stream of 20 events. Used by the benchmark servers
(`benchmarks.upstream`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EVENTS = 20
"""Events of a stream, without the [DONE] of chat completions."""

_WORDS = ("The", "membership", "of", "John", "was", "frozen", "until", "the", "end", "of", "the", "month.")
_TEXT = " ".join(_WORDS)
_CREATED = 1_700_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Canned:
    """The answer in the format of one API."""

    plain: bytes
    events: tuple[bytes, ...]
    """The events of the stream as they are sent, each with its blank line."""


def _pieces(events_around: int) -> list[str]:
    """Returns pieces of text that make up `EVENTS` together with the other events of a stream."""
    return [f"{_WORDS[place % len(_WORDS)]} " for place in range(EVENTS - events_around)]


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _data(*values: Any) -> tuple[bytes, ...]:
    return tuple(b"data: " + _json(value) + b"\n\n" for value in values)


def _typed(*values: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(b"event: " + each["type"].encode() + b"\ndata: " + _json(each) + b"\n\n" for each in values)


# ---------------------------------------------------------------- chat completions

_CHAT_USAGE = {"prompt_tokens": 120, "completion_tokens": 18, "total_tokens": 138}


def _chat() -> Canned:
    message = {"role": "assistant", "content": _TEXT}
    plain = _chat_body(
        "chat.completion", [{"index": 0, "message": message, "finish_reason": "stop"}], usage=_CHAT_USAGE
    )
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(3)]
    events = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    events += [_chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}]), _chunk([], usage=_CHAT_USAGE)]
    return Canned(plain=_json(plain), events=(*_data(*events), b"data: [DONE]\n\n"))


def _chunk(choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return _chat_body("chat.completion.chunk", choices, **more)


def _chat_body(kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    head = {"id": "chatcmpl-bench", "object": kind, "created": _CREATED, "model": "bench", "choices": choices}
    return {**head, **more}


# ---------------------------------------------------------------- responses


def _responses() -> Canned:
    pieces = _pieces(8)
    text = "".join(pieces)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_bench", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    opened = {**item, "status": "in_progress", "content": []}
    place = {"item_id": "msg_bench", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response("completed", [item])},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return Canned(plain=_json(_response("completed", [item])), events=_typed(*numbered))


def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 18,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 138,
    }
    return {
        "id": "resp_bench",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "bench",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
        "metadata": {},
    }


# ---------------------------------------------------------------- messages


def _messages() -> Canned:
    usage = {"input_tokens": 120, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 18}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _message([], None, {**usage, "output_tokens": 1})},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in _pieces(5)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return Canned(plain=_json(_message([{"type": "text", "text": _TEXT}], "end_turn", usage)), events=_typed(*events))


def _message(content: list[dict[str, Any]], stop: str | None, usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


# ---------------------------------------------------------------- generate content


def _generate() -> Canned:
    pieces = _pieces(0)
    events = [_generated(piece, None) for piece in pieces[:-1]]
    return Canned(plain=_json(_generated(_TEXT, "STOP")), events=_data(*events, _generated(pieces[-1], "STOP")))


def _generated(text: str, finish: str | None) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    usage = {"promptTokenCount": 120, "candidatesTokenCount": 18, "totalTokenCount": 138}
    return {
        "candidates": [{**candidate, "finishReason": finish} if finish else candidate],
        "usageMetadata": usage,
        "modelVersion": "bench",
        "responseId": "bench",
    }


CANNED: Mapping[bytes, Canned] = {
    b"/chat/completions": _chat(),
    b"/responses": _responses(),
    b"/messages": _messages(),
    b":generateContent": _generate(),
    b":streamGenerateContent": _generate(),
}
"""The answers, by the ending of the request's path."""
