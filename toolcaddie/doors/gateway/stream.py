"""A run's events as the server-sent events of one chat completion.

The client sees one answer: one `id`, one `created`, one role, whatever number of model calls stood behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.events import ClientCallDelta, ModelAsked, RunEvent, TextDelta
from toolcaddie.core.run import RunResult
from toolcaddie.doors.gateway.wire import BETWEEN_ROUNDS, approval_text, finish_reason, usage_of
from toolcaddie.providers.chat_wire import call_to_wire

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


class ChatStream:
    """Turns events into chunks. Feed it in order; each method gives the bytes to send, often none."""

    def __init__(self, *, run_id: str, created: int, model: str, include_usage: bool) -> None:
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{run_id}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._include_usage = include_usage
        self._begun = False
        self._wrote_text = False
        self._new_round = False
        self._shown: set[str] = set()

    def event(self, event: RunEvent) -> bytes:
        match event:
            case TextDelta():
                return self._text(event)
            case ClientCallDelta():
                return self._call(event)
            case ModelAsked():
                self._new_round = self._wrote_text
        return b""

    def finish(self, result: RunResult) -> bytes:
        """What was not streamed yet, the reason to stop, usage if asked for, and the end."""
        out = bytearray()
        if result.status == "pending":
            out += self._chunk({"content": (BETWEEN_ROUNDS if self._wrote_text else "") + approval_text(result)})
        unseen = [call for call in result.client_calls if call.id not in self._shown]
        for index, call in enumerate(unseen, start=len(self._shown)):
            out += self._chunk({"tool_calls": [{"index": index, **call_to_wire(call)}]})
        out += self._chunk({}, finish=finish_reason(result))
        if self._include_usage:
            out += _event({**self._head, "choices": [], "usage": usage_of(result)})
        return bytes(out) + DONE

    def _text(self, event: TextDelta) -> bytes:
        delta, extra, logprobs = _ours(event)
        if not delta and not extra:
            return b""
        if self._new_round and delta.get("content"):
            self._new_round = False
            delta = {**delta, "content": BETWEEN_ROUNDS + delta["content"]}
        self._wrote_text = self._wrote_text or bool(delta.get("content"))
        return self._chunk(delta, logprobs=logprobs, extra=extra) if delta else b""

    def _call(self, event: ClientCallDelta) -> bytes:
        piece = event.delta
        unknown = dict(piece.extra or ())
        function: dict[str, Any] = {**unknown.pop("function", {}), "arguments": piece.arguments}
        call: dict[str, Any] = {**unknown, "index": piece.index}
        if piece.id is not None:
            self._shown.add(piece.id)
            call |= {"id": piece.id, "type": "function"}
        if piece.name is not None:
            function = {"name": piece.name, **function}
        return self._chunk({"tool_calls": [{**call, "function": function}]})

    def _chunk(
        self,
        delta: Mapping[str, Any],
        *,
        finish: str | None = None,
        logprobs: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> bytes:
        if not self._begun:
            self._begun = True
            delta = {"role": "assistant", **delta}
            delta.setdefault("content", "" if "tool_calls" not in delta else None)
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return _event({**self._head, **(extra or {}), "choices": [choice]})


_REPLACED = frozenset({"id", "object", "created", "model", "choices", "usage"})


def _ours(event: TextDelta) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """The provider's delta without what is not the client's to see (calls, role, end), its other fields, logprobs."""
    raw = event.raw
    if raw is None:
        return ({"content": event.text} if event.text else {}), {}, None
    extra = {name: value for name, value in raw.items() if name not in _REPLACED}
    choices = raw.get("choices") or ()
    choice = choices[0] if choices else {}
    said = choice.get("delta") or {}
    delta = {
        name: value for name, value in said.items() if name not in ("tool_calls", "role") and value not in (None, "")
    }
    return delta, extra, choice.get("logprobs")


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
