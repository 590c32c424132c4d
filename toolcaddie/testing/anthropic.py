"""Anthropic's Messages API as a scripted server for tests speaks it: reads requests, refuses invalid ones, and writes answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.wire import AnswerHead
from toolcaddie.testing.script import Reply
from toolcaddie.wires.bodies import ENCODER, UNREADABLE
from toolcaddie.wires.messages.messages import NOT_JSON
from toolcaddie.wires.messages.replies import answer_head, stop_word, write_usage
from toolcaddie.wires.messages.strict import Terms, complaint_about, refusal

_PIECES = 3
"""Largest number of deltas that a streamed text is divided into."""
_BEARER = "Bearer "

Block = dict[str, Any]


class AnthropicWire:
    """The Messages API. Implements `testing.wire.Wire`. Each server needs an `AnthropicWire` of its own, which remembers
    signatures.

    A reply's `reasoning` is sent as a signed thinking block. A later request must contain the block unchanged or not at all. If
    the request has a thinking budget and answers calls, it must contain the thinking block of these calls. `redacts`: thinking
    is sent encrypted. `mid_system`: the model accepts system messages within the conversation.
    """

    name = "anthropic"
    root = "/v1"

    def __init__(self, *, redacts: bool = False, mid_system: bool = False) -> None:
        self._redacts = redacts
        self._mid_system = mid_system
        self._signed: dict[str, str] = {}

    def asks(self, path: str) -> bool:
        return path == "/v1/messages"

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        """Returns the key from `x-api-key` or `authorization`; None if the request lacks the header `anthropic-version`."""
        if "anthropic-version" not in headers:
            return None
        authorization = headers.get("authorization", "")
        return headers.get("x-api-key") or (
            authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else None
        )

    def model_of(self, path: str, body: Any) -> str:
        return str(body.get("model", ""))

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        complaint = complaint_about(body, Terms(signed=self._signed, mid_system=self._mid_system))
        return None if complaint is None else self.error(400, complaint)

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        return refusal(status, message, kind=kind, code=code)

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        return {
            **_head(answer_id, model),
            "content": self._blocks(reply),
            "stop_reason": stop_word(reply.finish),
            "usage": write_usage(reply.usage),
            **(reply.extra or {}),
        }

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        return list(map(ENCODER.encode, self._events(reply, answer_id, model)))

    def block(self, data: bytes) -> bytes:
        kind = _type_of(data)
        return (b"event: " + kind.encode() + b"\n" if kind else b"") + b"data: " + data + b"\n\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return {**_head(answer_id, model), "content": [], "usage": write_usage(Usage())}

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        start = {"type": "message_start", "message": self.empty(answer_id=answer_id, model=model)}
        return [ENCODER.encode(start), ENCODER.encode({"type": "message_stop"})]

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        listed = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-02-04T00:00:00Z",
                "lifecycle": "active",
            }
            for name in names
        ]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
        return {"data": listed, "has_more": False, **ends}

    # ---------------------------------------------------------------- an answer

    def _blocks(self, reply: Reply) -> list[Block]:
        """Returns the content blocks of an answer, in the order thinking, text, calls."""
        thoughts = [self._thought(reply.reasoning)] if reply.reasoning else []
        texts = [{"type": "text", "text": reply.text, "citations": None}] if reply.text else []
        return [*thoughts, *texts, *(_call(each, _arguments(each)) for each in reply.calls)]

    def _thought(self, thinking: str) -> Block:
        """Returns a signed thinking block. As with the real API, no two signatures are equal."""
        seal = hashlib.sha256(f"{len(self._signed)} {thinking}".encode()).hexdigest()
        if self._redacts:
            self._signed[seal] = ""
            return {"type": "redacted_thinking", "data": seal}
        self._signed[seal] = thinking
        return {"type": "thinking", "thinking": thinking, "signature": seal}

    def _events(self, reply: Reply, answer_id: str, model: str) -> Iterator[Block]:
        usage = write_usage(reply.usage)
        begun = {**_head(answer_id, model), "content": [], "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": begun}
        yield {"type": "ping"}
        calls = iter(reply.calls)
        for index, block in enumerate(self._blocks(reply)):
            start, deltas = _in_pieces(block, calls)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        reason = {"stop_reason": stop_word(reply.finish), "stop_sequence": None}
        yield {"type": "message_delta", "delta": reason, "usage": usage}
        yield {"type": "message_stop"}


def _in_pieces(block: Block, calls: Iterator[ToolCall]) -> tuple[Block, list[Block]]:
    """Returns the block as `content_block_start` shows it, and the deltas that follow. `calls` yields the call of each block."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    if block["type"] == "tool_use":
        pieces = ["", *_pieces(next(calls).arguments)]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


def _pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // _PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def _call(call: ToolCall, arguments: Any) -> Block:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments, "caller": {"type": "direct"}}


def _arguments(call: ToolCall) -> Any:
    """Returns the arguments as an object, because an answer without streaming can express nothing else. Text that is not a JSON
    object stands in a field of its own; a stream sends it unchanged."""
    try:
        value = msgspec.json.decode(call.arguments)
    except UNREADABLE:
        value = None
    return value if isinstance(value, dict) else {NOT_JSON: call.arguments}


def _head(answer_id: str, model: str) -> Block:
    return answer_head(AnswerHead(id=answer_id, created=0, model=model))


def _type_of(data: bytes) -> str:
    """Returns the name of the event; an empty text if the data is not an event."""
    try:
        kind = msgspec.json.decode(data).get("type")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
        return ""
    return kind if isinstance(kind, str) else ""
