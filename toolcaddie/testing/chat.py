"""OpenAI's chat completions as a scripted server for tests speaks them: reads requests, refuses invalid ones, and writes
answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.message import ModelDelta, RawBody
from toolcaddie.core.wire import AnswerHead, DoorRequest, Problem
from toolcaddie.testing.script import Reply, deltas, model_reply
from toolcaddie.wires import chat
from toolcaddie.wires.chat.replies import reply_body
from toolcaddie.wires.chat.strict import complaint as refusal_of

CREATED = 1_700_000_000
_DONE = b"[DONE]"
_BEARER = "Bearer "
_TIER: dict[str, Any] = {"service_tier": "default"}
"""A field that Toolcaddie does not know, added to every answer: tests see whether unknown fields are passed on."""


class ChatWire:
    """OpenAI's chat completions. Implements `testing.wire.Wire`. It remembers nothing, so all servers share `CHAT`."""

    name = "chat"
    root = "/v1"

    def asks(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        authorization = headers.get("authorization", "")
        return authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else None

    def model_of(self, path: str, body: Any) -> str:
        return str(body["model"])

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        return refusal_of(body)

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
        body: dict[str, Any] = msgspec.json.decode(
            chat.WIRE.write_error(Problem(status=status, message=message, kind=kind, code=code))
        )
        return body

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        return reply_body(
            model_reply(reply, model=model, raw=RawBody(wire="chat", fields=_TIER)), _head(answer_id, model)
        )

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        options = body.get("stream_options") or {}
        request = DoorRequest(model=model, messages=(), params={"stream_options": options})
        writer = chat.WIRE.write_stream(request, _head(answer_id, model))
        blocks = [writer.begin()]
        if reply.extra:
            blocks.append(writer.add(ModelDelta(raw={"choices": [{"delta": reply.extra}]})))
        blocks += [*map(writer.add, deltas(reply)), writer.end(model_reply(reply, model=model))]
        events = data_of(b"".join(blocks))
        return [_as_provided(data, usage=bool(options.get("include_usage"))) for data in events[:-1]] + events[-1:]

    def block(self, data: bytes) -> bytes:
        return b"data: " + data + b"\n\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return {**self.whole(Reply(), answer_id=answer_id, model=model), "choices": []}

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        chunk = {**self.empty(answer_id=answer_id, model=model), "object": "chat.completion.chunk"}
        return [msgspec.json.encode(chunk), _DONE]

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in names]
        return {"object": "list", "data": listed}


def data_of(blocks: bytes) -> list[bytes]:
    """Returns the data of each event in a stream of server-sent events."""
    return [block.partition(b"data: ")[2] for block in blocks.split(b"\n\n") if block]


def _as_provided(data: bytes, *, usage: bool) -> bytes:
    """Returns a chunk with the fields that the real provider adds: its tier, and null for `refusal`.

    `usage`: the client asked for usage, so every chunk has the field, which is null in all but the last.
    """
    chunk = msgspec.json.decode(data)
    if chunk["choices"] and "role" in (delta := chunk["choices"][0]["delta"]):
        delta["refusal"] = None
    return msgspec.json.encode({**chunk, **_TIER, **({"usage": chunk.get("usage")} if usage else {})})


def _head(answer_id: str, model: str) -> AnswerHead:
    return AnswerHead(id=answer_id, created=CREATED, model=model)


CHAT = ChatWire()
