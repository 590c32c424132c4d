"""OpenAI's Responses API as a scripted server for tests speaks it: reads requests, refuses invalid ones, and writes answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.tool import ToolCall
from toolcaddie.core.wire import AnswerHead, Problem
from toolcaddie.testing.chat import CHAT, CREATED, data_of
from toolcaddie.testing.script import PIECES, Reply, model_reply
from toolcaddie.wires import responses
from toolcaddie.wires.chat.strict import refusal
from toolcaddie.wires.responses.replies import call_item, message_item, reasoning_item, response_of
from toolcaddie.wires.responses.stream import ResponsesWriter
from toolcaddie.wires.responses.strict import complaint, custom_names, loaded_by

_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded", 503: "server_overloaded", 529: "server_overloaded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Original:
    """Fields of a call that was sent to the client; the client must send the call back with the same fields."""

    encrypted: str | None
    namespace: str | None


class ResponsesWire:
    """The Responses API. Implements `testing.wire.Wire`. Each server needs a `ResponsesWire` of its own, which remembers answers.

    A reply's `reasoning` is sent as an item with a summary and an encrypted text. Later requests must contain the encrypted text
    unchanged. Until the user's next message, they must also contain each call after its reasoning and with its namespace. A tool
    whose definition came as an item of the input has a namespace, which is its own name. A script names a tool of a namespace
    `namespace.name`. The argument of a `custom` tool is `input`.
    """

    name = "responses"
    root = "/v1"

    def __init__(self) -> None:
        self._encrypted: set[str] = set()
        self._calls: dict[tuple[str, str], _Original] = {}
        self._loaded: set[str] = set()
        self._custom: set[str] = set()
        """Names of the `custom` tools in the last request."""

    def asks(self, path: str) -> bool:
        return path == "/v1/responses"

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        return CHAT.key_of(headers)

    def model_of(self, path: str, body: Any) -> str:
        return str(body.get("model", ""))

    def streams(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        refused = complaint(body) or self._forgery(body)
        if refused is None:
            self._loaded = {name for name in loaded_by(body) if "." not in name}
            self._custom = custom_names(body)
        return refused

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        return CHAT.error(status, message, kind=kind, code=code)

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        output = list(self._output(reply, answer_id, model))
        return response_of(model_reply(reply, model=model), _head(answer_id, model), output)

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        writer = ResponsesWriter(_head(answer_id, model))
        out = writer.begin()
        for item in self._output(reply, answer_id, model):
            out += writer.item(item, pieces=PIECES)
        return data_of(out + writer.end(model_reply(reply, model=model)))

    def block(self, data: bytes) -> bytes:
        return b"event: " + _type_of(data).encode() + b"\ndata: " + data + b"\n\n"

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        return response_of(model_reply(Reply(), model=model), _head(answer_id, model), [])

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        writer = ResponsesWriter(_head(answer_id, model))
        return data_of(writer.begin() + writer.end(model_reply(Reply(), model=model)))

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        return CHAT.models(names)

    # ---------------------------------------------------------------- answers, and the check of what comes back

    def _output(self, reply: Reply, answer_id: str, model: str) -> Iterator[dict[str, Any]]:
        encrypted = None
        if reply.reasoning:
            digest = hashlib.sha256(f"{answer_id} {reply.reasoning}".encode()).hexdigest()
            encrypted = f"gAAAAAB{digest}"
            self._encrypted.add(encrypted)
            yield reasoning_item(f"rs_{answer_id}", reply.reasoning, encrypted=encrypted)
        if reply.text is not None or reply.extra or not reply.calls:
            yield _message(reply, f"msg_{answer_id}")
        for position, call in enumerate(reply.calls):
            item = self._call(call, f"fc_{answer_id}_{position}")
            self._calls[model, call.id] = _Original(encrypted=encrypted, namespace=item.get("namespace"))
            yield item

    def _call(self, call: ToolCall, item_id: str) -> dict[str, Any]:
        item = call_item(call, item_id)
        namespace, _, name = call.name.rpartition(".")
        if namespace:
            item |= {"namespace": namespace, "name": name}
        elif call.name in self._loaded:
            item["namespace"] = call.name
        arguments = {"input": msgspec.json.decode(item["arguments"])["input"]} if call.name in self._custom else None
        if call.name == "tool_search":
            item |= {"type": "tool_search_call", "execution": "client", "name": None}
            arguments = {"arguments": msgspec.json.decode(item["arguments"])}
        elif arguments:
            item |= {"type": "custom_tool_call", "arguments": None}
        return {field: value for field, value in (item | (arguments or {})).items() if value is not None}

    def _forgery(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Returns a refusal if the client changed an item of an earlier answer, or omitted an item or field that belongs to
        it."""
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
            original = self._calls.get((body["model"], item.get("call_id", "")))
            if item.get("type") not in ("function_call", "custom_tool_call") or original is None:
                continue
            if original.encrypted is not None and original.encrypted not in thoughts:
                return refusal(
                    f"Item of type 'function_call' with call_id '{item['call_id']}' was provided without its required "
                    "'reasoning' item.",
                    param="input",
                )
            if item.get("namespace") != original.namespace:
                return refusal(
                    f"Function call '{item['call_id']}' was provided without its namespace '{original.namespace}'.",
                    param="input",
                )
        return None


def error_event(status: int, message: str) -> bytes:
    """Returns the data of an event that ends a stream with an error. The status becomes the provider's code for it."""
    code = _CODES.get(status, "server_error" if status >= 500 else "invalid_prompt")
    problem = Problem(status=status, message=message, kind="server_error", code=code)
    return data_of(responses.WIRE.write_error_event(problem))[0]


def _message(reply: Reply, item_id: str) -> dict[str, Any]:
    extra = dict(reply.extra or {})
    refused = extra.pop("refusal", None)
    return {**message_item(item_id, text=reply.text or "", refusal=refused or ""), **extra}


def _head(answer_id: str, model: str) -> AnswerHead:
    return AnswerHead(id=answer_id, created=CREATED, model=model)


def _type_of(data: bytes) -> str:
    """Returns the type of an event; 'error' for an event that a test has damaged."""
    try:
        kind = msgspec.json.decode(data)["type"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        kind = None
    return kind if isinstance(kind, str) else "error"
