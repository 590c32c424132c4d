"""OpenAI's Responses API, asked to store nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope, ErrorReport, ModelPage, Problem, WireRequest
from toolcaddie.wires.bodies import error_report, field_value, model_page, open_envelope
from toolcaddie.wires.chat.errors import write_error
from toolcaddie.wires.responses.errors import write_error_event
from toolcaddie.wires.responses.messages import ToolForms, read_tools
from toolcaddie.wires.responses.replies import read_reply, write_reply
from toolcaddie.wires.responses.requests import WHAT, declines_tools, read_request, write_request
from toolcaddie.wires.responses.stream import ResponsesReader, ResponsesWriter
from toolcaddie.wires.responses.strict import complaint


class ResponsesWire:
    """Implements `ports.wires.Wire`.

    Reasoning of an earlier answer goes back to its author in every request, encrypted as it came. The parameters `store` and
    `include` of a request stand above ours.
    """

    name: WireName = "responses"
    models_path = "/models"
    upstream_path = "/responses"

    def __init__(self) -> None:
        self._tools = ToolForms()

    # ---------------------------------------------------------------- towards a provider

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        body = write_request(request, model=model, stream=stream, author=author, tools=self._tools)
        return WireRequest(path=self.upstream_path, body=body, headers=request.headers)

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        return read_reply(body, who=who, author=author)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> ResponsesReader:
        return ResponsesReader(who=who, author=author)

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

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> ResponsesWriter:
        return ResponsesWriter(head)

    def write_error(self, problem: Problem) -> bytes:
        return write_error(problem)

    def write_error_event(self, problem: Problem) -> bytes:
        return write_error_event(problem)

    def complaint(self, path: str, body: Any) -> JsonObject | None:
        return complaint(body)


WIRE = ResponsesWire()
