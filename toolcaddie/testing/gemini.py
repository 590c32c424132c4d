"""Gemini's generateContent as a scripted server for tests speaks it: reads requests, refuses invalid ones, and writes answers."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.tool import ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.testing.script import Reply
from toolcaddie.wires.bodies import ENCODER, UNREADABLE
from toolcaddie.wires.gemini.errors import refusal
from toolcaddie.wires.gemini.replies import candidate_of, finish_word, write_answer, write_usage
from toolcaddie.wires.gemini.strict import fault_of, signs

_PATH = re.compile(r"/v1beta/models/([^/:]+):(generateContent|streamGenerateContent)")
_PIECES = 3
"""Largest number of events that a streamed text is divided into."""


class GeminiWire:
    """The Gemini API. Implements `testing.wire.Wire`. Each server needs a `GeminiWire` of its own, which remembers signed parts.

    Models of Gemini 3 and later, and models of unknown names, sign the first call of an answer, or the last text of an answer
    without calls. They refuse a call of the current turn that comes back without its signature. Models of Gemini 2 sign only
    answers with reasoning, and do not require signatures. `call_ids=False`: calls have no ids, as with older models. The API
    cannot express a call whose arguments are not a JSON object: such an answer ends with `MALFORMED_FUNCTION_CALL`.
    """

    name = "gemini"
    root = "/v1beta"

    def __init__(self, *, call_ids: bool = True) -> None:
        self._call_ids = call_ids
        self._signed: dict[str, Any] = {}

    def asks(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("x-goog-api-key")

    def model_of(self, path: str, body: Any) -> str:
        match = _PATH.fullmatch(path)
        return match[1] if match else ""

    def streams(self, path: str, body: Any) -> bool:
        return path.endswith(":streamGenerateContent")

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        fault = fault_of(body, model=self.model_of(path, body), signed=self._signed)
        return None if fault is None else self.error(400, fault)

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        return refusal(status, message, kind=kind, code=code)

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        malformed = _malformed(reply)
        if malformed is not None:
            return write_answer(malformed, write_usage(reply.usage), answer_id, model)
        parts = [*_words(reply.reasoning, thought=True), *_words(reply.text or ""), *self._calls(reply, model)]
        if not parts:
            parts = [{"text": ""}]
        if not reply.calls and self._signs(reply, model):
            parts[-1] = {**parts[-1], "thoughtSignature": self._signature(parts[-1]["text"])}
        candidate = {**candidate_of(parts), "finishReason": finish_word(reply.finish), **(reply.extra or {})}
        return write_answer(candidate, write_usage(reply.usage), answer_id, model)

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        malformed = _malformed(reply)
        parts = [] if malformed else [*_pieces(reply, self._calls(reply, model))]
        prompt = {"promptTokenCount": reply.usage.input_tokens, "totalTokenCount": reply.usage.input_tokens}
        answers = [write_answer(candidate_of([part]), prompt, answer_id, model) for part in parts]
        last = malformed or {
            **candidate_of([self._last(reply, model)]),
            "finishReason": finish_word(reply.finish),
            **(reply.extra or {}),
        }
        return [*map(ENCODER.encode, [*answers, write_answer(last, write_usage(reply.usage), answer_id, model)])]

    def block(self, data: bytes) -> bytes:
        return b"data: " + data + b"\r\n\r\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return {
            "usageMetadata": write_usage(Usage(input_tokens=100)),
            "modelVersion": model,
            "responseId": answer_id,
        }

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        return [ENCODER.encode(self.empty(answer_id=answer_id, model=model))]

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        methods = ["generateContent", "countTokens"]
        return {"models": [{"name": f"models/{name}", "supportedGenerationMethods": methods} for name in names]}

    def _signs(self, reply: Reply, model: str) -> bool:
        return signs(model) or bool(reply.reasoning)

    def _signature(self, meant: Any) -> str:
        made = base64.b64encode(f"what the model thought, {len(self._signed)}".encode()).decode()
        self._signed[made] = meant
        return made

    def _calls(self, reply: Reply, model: str) -> Iterator[dict[str, Any]]:
        for position, call in enumerate(reply.calls):
            arguments = _arguments(call)
            made: dict[str, Any] = {"name": call.name, "args": arguments}
            if self._call_ids:
                made["id"] = call.id
            part: dict[str, Any] = {"functionCall": made}
            if position == 0 and self._signs(reply, model):
                part["thoughtSignature"] = self._signature((call.name, arguments))
            yield part

    def _last(self, reply: Reply, model: str) -> dict[str, Any]:
        """Returns the last part of a stream: an empty text, which carries the signature of the text before it if there is one."""
        if reply.calls or not self._signs(reply, model):
            return {"text": ""}
        return {"text": "", "thoughtSignature": self._signature("")}


def _malformed(reply: Reply) -> dict[str, Any] | None:
    """Returns the candidate for a reply with a call that this API cannot express; None: all calls can be sent."""
    for call in reply.calls:
        if _arguments(call) is None:
            message = f"Malformed function call: {call.name}({call.arguments})"
            return {"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message, "index": 0}
    return None


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def _pieces(reply: Reply, calls: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the parts of a stream, one for each event. Texts are divided; this API never divides a call."""
    for text, thought in ((reply.reasoning, True), (reply.text or "", False)):
        size = -(-len(text) // _PIECES) or 1
        for start in range(0, len(text), size):
            yield from _words(text[start : start + size], thought=thought)
    yield from calls


def _words(text: str, *, thought: bool = False) -> list[dict[str, Any]]:
    if not text:
        return []
    return [{"text": text, "thought": True} if thought else {"text": text}]
