"""OpenAI's chat completions, as its own servers and many compatible ones speak them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import (
    AnswerHead,
    DoorRequest,
    Envelope,
    ErrorReport,
    ModelPage,
    Problem,
    WireRequest,
)
from toolcaddie.wires.bodies import error_report, field_value, model_page, open_envelope
from toolcaddie.wires.chat.errors import write_error, write_error_event
from toolcaddie.wires.chat.messages import read_tools
from toolcaddie.wires.chat.replies import read_reply, write_reply
from toolcaddie.wires.chat.requests import WHAT, asks_for_usage, declines_tools, read_request, write_request
from toolcaddie.wires.chat.stream import ChatReader, ChatWriter
from toolcaddie.wires.chat.strict import complaint


class ChatWire:
    """Implements `ports.wires.Wire`. `stream_usage=False` is for servers that do not know `stream_options`; their streams then
    cost unknown tokens."""

    name: WireName = "chat"
    models_path = "/models"
    upstream_path = "/chat/completions"

    def __init__(self, *, stream_usage: bool = True) -> None:
        self._stream_usage = stream_usage

    # ---------------------------------------------------------------- towards a provider

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        usage = stream and (self._stream_usage or asks_for_usage(request.params))
        body = write_request(request, model=model, stream=stream, usage=usage, author=author)
        return WireRequest(path=self.upstream_path, body=body, headers=request.headers)

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        return read_reply(body, who=who, author=author)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> ChatReader:
        """Usage is always asked for, so that the reply knows it; `raw` of a delta shows it only to a caller who asked."""
        return ChatReader(who=who, show_usage=asks_for_usage(request.params), author=author)

    def read_error(self, status: int, body: bytes) -> ErrorReport:
        return error_report(status, body)

    def read_models(self, body: bytes, *, who: str) -> ModelPage:
        return model_page(body, who=who)

    # ---------------------------------------------------------------- at a door

    def open(self, body: bytes, bounds: Bounds) -> Envelope:
        return open_envelope(body, bounds, what=WHAT)

    def declines_tools(self, envelope: Envelope) -> bool:
        return declines_tools(envelope)

    def read_request(self, envelope: Envelope, bounds: Bounds) -> DoorRequest:
        return read_request(envelope, bounds)

    def read_tools(self, raw: bytes, bounds: Bounds) -> Sequence[Tool]:
        return read_tools(field_value(raw, what=WHAT), bounds)

    def write_reply(self, reply: ModelReply, head: AnswerHead) -> bytes:
        return write_reply(reply, head)

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> ChatWriter:
        return ChatWriter(head, include_usage=asks_for_usage(request.params))

    def write_error(self, problem: Problem) -> bytes:
        return write_error(problem)

    def write_error_event(self, problem: Problem) -> bytes:
        return write_error_event(problem)

    def complaint(self, path: str, body: Any) -> JsonObject | None:
        return complaint(body)


WIRE = ChatWire()
