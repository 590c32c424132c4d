"""OpenAI's Responses API from the provider's side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.message import Usage
from toolcaddie.core.tool import ToolCall
from toolcaddie.testing.chat import CHAT
from toolcaddie.testing.responses_strict import loaded_by, refusal_of
from toolcaddie.testing.script import Reply
from toolcaddie.wires.chat.strict import refusal

_PIECES = 3
"""A streamed text or argument comes in at most so many deltas: more than one, so that joining them is tested."""
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded", 503: "server_overloaded", 529: "server_overloaded"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A call that went out, and what has to come back with it."""

    encrypted: str | None
    namespace: str | None


class ResponsesWire:
    """Implements `testing.wire.Wire`. One for each server: it knows again what it sent.

    A reply's `reasoning` goes out as an item with a summary and an encrypted text. Coming back, that text must be one of ours;
    and as long as the model's turn lasts, a call must come back behind its reasoning and with its namespace. Calls of tools
    that came with the input carry one, their own name.
    """

    name = "responses"
    root = "/v1"

    def __init__(self) -> None:
        self._encrypted: set[str] = set()
        self._calls: dict[tuple[str, str], _Sent] = {}
        self._loaded: set[str] = set()

    def asks(self, path: str) -> bool:
        return path == "/v1/responses"

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        return CHAT.key_of(headers)

    def model_of(self, path: str, body: Any) -> str:
        return str(body.get("model", ""))

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        refused = refusal_of(body) or self._forgery(body)
        if refused is None:
            self._loaded = loaded_by(body)
        return refused

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        return CHAT.error(status, message, kind=kind, code=code)

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        output = list(self._output(reply, answer_id, model))
        return _response(answer_id, model, output, reply)

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        whole = self.whole(reply, answer_id=answer_id, model=model)
        return _numbered(_events(whole))

    def block(self, data: bytes) -> bytes:
        return b"event: " + _type_of(data).encode() + b"\ndata: " + data + b"\n\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return _response(answer_id, model, [], Reply())

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        return _numbered(_events(self.empty(answer_id=answer_id, model=model)))

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        return CHAT.models(names)

    # ---------------------------------------------------------------- memory

    def _output(self, reply: Reply, answer_id: str, model: str) -> Iterator[dict[str, Any]]:
        encrypted = None
        if reply.reasoning:
            digest = hashlib.sha256(f"{answer_id} {reply.reasoning}".encode()).hexdigest()
            encrypted = f"gAAAAAB{digest}"
            self._encrypted.add(encrypted)
            yield _reasoning(reply.reasoning, encrypted, f"rs_{answer_id}")
        if reply.text is not None or reply.extra or not reply.calls:
            yield _message(reply, f"msg_{answer_id}")
        for position, call in enumerate(reply.calls):
            namespace = call.name if call.name in self._loaded else None
            self._calls[model, call.id] = _Sent(encrypted=encrypted, namespace=namespace)
            yield _function_call(call, f"fc_{answer_id}_{position}", namespace)

    def _forgery(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """What of our own came back altered, or without what belongs to it."""
        items = body["input"] if isinstance(body["input"], list) else []
        thoughts = [item["encrypted_content"] for item in items if item.get("type") == "reasoning"]
        for encrypted in thoughts:
            if encrypted not in self._encrypted:
                return refusal(
                    "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or "
                    "parsed.",
                    code="invalid_encrypted_content",
                )
        turn = max((place for place, item in enumerate(items) if item.get("role") == "user"), default=0)
        for item in items[turn:]:
            sent = self._calls.get((body["model"], item.get("call_id", "")))
            if item.get("type") != "function_call" or sent is None:
                continue
            if sent.encrypted is not None and sent.encrypted not in thoughts:
                return refusal(
                    f"Item of type 'function_call' with call_id '{item['call_id']}' was provided without its required "
                    "'reasoning' item.",
                    param="input",
                )
            if item.get("namespace") != sent.namespace:
                return refusal(
                    f"Function call '{item['call_id']}' was provided without its namespace '{sent.namespace}'.",
                    param="input",
                )
        return None


def error_event(status: int, message: str) -> bytes:
    """The data of an event that breaks off a stream, with the provider's word for the status."""
    code = _CODES.get(status, "server_error" if status >= 500 else "invalid_prompt")
    event = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}
    return msgspec.json.encode(event)


# ---------------------------------------------------------------- items


def _reasoning(text: str, encrypted: str, item_id: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def _message(reply: Reply, item_id: str) -> dict[str, Any]:
    extra = dict(reply.extra or {})
    refused = extra.pop("refusal", None)
    parts: list[dict[str, Any]] = []
    if reply.text is not None or not refused:
        parts.append({"type": "output_text", "text": reply.text or "", "annotations": [], "logprobs": []})
    if refused:
        parts.append({"type": "refusal", "refusal": refused})
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": parts,
        **extra,
    }


def _function_call(call: ToolCall, item_id: str, namespace: str | None) -> dict[str, Any]:
    item = {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }
    return item if namespace is None else {**item, "namespace": namespace}


def _response(answer_id: str, model: str, output: list[dict[str, Any]], reply: Reply) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.finish)
    return {
        "id": f"resp_{answer_id}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(reply.usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.written_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# ---------------------------------------------------------------- events


def _numbered(events: Iterator[dict[str, Any]]) -> list[bytes]:
    return [msgspec.json.encode({**event, "sequence_number": number}) for number, event in enumerate(events)]


def _events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**whole, "status": "in_progress", "output": [], "incomplete_details": None}
    begun.pop("usage")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for place, item in enumerate(whole["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": place, "item": _begun(item)}
        yield from _PIECEWISE[item["type"]](item, at)
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "reasoning":
        return {**item, "summary": [], "encrypted_content": "gAAAA"}
    nothing: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return {**item, **nothing, "status": "in_progress"}


def _summary(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = "response.reasoning_summary"
    for index, part in enumerate(item["summary"]):
        here = {**at, "summary_index": index}
        yield {"type": f"{kind}_part.added", **here, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield {"type": f"{kind}_text.delta", **here, "delta": piece}
        yield {"type": f"{kind}_text.done", **here, "text": part["text"]}
        yield {"type": f"{kind}_part.done", **here, "part": part}


def _parts(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(item["content"]):
        here = {**at, "content_index": index}
        name = "refusal" if part["type"] == "refusal" else "text"
        kind = "response.refusal" if name == "refusal" else "response.output_text"
        more: dict[str, Any] = {} if name == "refusal" else {"logprobs": []}
        yield {"type": "response.content_part.added", **here, "part": {**part, name: ""}}
        for piece in _pieces(part[name]):
            yield {"type": f"{kind}.delta", **here, "delta": piece, **more}
        yield {"type": f"{kind}.done", **here, name: part[name], **more}
        yield {"type": "response.content_part.done", **here, "part": part}


def _arguments(item: dict[str, Any], at: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = "response.function_call_arguments"
    for piece in _pieces(item["arguments"]):
        yield {"type": f"{kind}.delta", **at, "delta": piece}
    yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": item["arguments"]}


_PIECEWISE = {"reasoning": _summary, "message": _parts, "function_call": _arguments}


def _pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // _PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def _type_of(data: bytes) -> str:
    """The kind of an event; of one that a test has damaged: of an error."""
    try:
        kind = msgspec.json.decode(data)["type"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        kind = None
    return kind if isinstance(kind, str) else "error"
