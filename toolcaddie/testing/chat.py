"""The chat-completions wire from the provider's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.testing.script import Reply, completion, completion_chunks
from toolcaddie.wires.chat.strict import complaint as refusal_of
from toolcaddie.wires.chat.strict import refusal

_DONE = b"[DONE]"
_BEARER = "Bearer "


class ChatWire:
    """OpenAI's chat completions. Implements `testing.wire.Wire`."""

    name = "chat"
    root = "/v1"

    def asks(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        sent = headers.get("authorization", "")
        return sent.removeprefix(_BEARER) if sent.startswith(_BEARER) else None

    def model_of(self, path: str, body: Any) -> str:
        return str(body["model"])

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        return refusal_of(body)

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        if status < 500 and not kind:
            return refusal(message, code=code)
        return {"error": {"message": message, "type": kind or "server_error", "param": None, "code": code}}

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        return completion(reply, answer_id=answer_id, model=model)

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        chunks = completion_chunks(reply, answer_id=answer_id, model=model, include_usage=usage)
        return [*map(msgspec.json.encode, chunks), _DONE]

    def block(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return {**completion(Reply(), answer_id=answer_id, model=model), "choices": []}

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        chunk = {**self.empty(answer_id=answer_id, model=model), "object": "chat.completion.chunk"}
        return [msgspec.json.encode(chunk), _DONE]

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in names]
        return {"object": "list", "data": listed}


CHAT = ChatWire()
