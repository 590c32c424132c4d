"""Anthropic's Messages API, or any server that speaks it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.capabilities import capabilities_of
from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope, ErrorReport, ModelPage, Problem, WireRequest
from toolcaddie.wires.bodies import error_report, field_value, open_envelope
from toolcaddie.wires.messages.errors import write_error, write_error_event
from toolcaddie.wires.messages.models import read_models
from toolcaddie.wires.messages.replies import read_reply, write_reply
from toolcaddie.wires.messages.requests import WHAT, declines_tools, read_request, write_request
from toolcaddie.wires.messages.stream import MessagesReader, MessagesWriter
from toolcaddie.wires.messages.strict import complaint
from toolcaddie.wires.messages.tools import WireTools, read_tools

MAX_TOKENS = 16_000
_BETA = "anthropic-beta"


class MessagesWire:
    """Implements `ports.wires.Wire`.

    `max_tokens` bounds an answer where a request has no bound, because the API wants one. `mid_system`: the models take
    system messages within the conversation, otherwise they go into the user's turn, marked as notes; None: as the
    capability table says of a model. `beta` are features of the API that every request names, separated by commas.
    """

    name: WireName = "messages"
    models_path = "/v1/models?limit=1000"
    upstream_path = "/v1/messages"

    def __init__(self, *, max_tokens: int = MAX_TOKENS, mid_system: bool | None = None, beta: str = "") -> None:
        self._max_tokens = max_tokens
        self._mid_system = mid_system
        self._beta = beta
        self._tools = WireTools()

    # ---------------------------------------------------------------- towards a provider

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        """Beta features are named together, whoever wants them."""
        body, needed = write_request(
            request,
            model=model,
            stream=stream,
            author=author,
            tools=self._tools,
            max_tokens=self._max_tokens,
            mid_system=self._takes_system(author),
        )
        headers = {name.lower(): value for name, value in (request.headers or {}).items()}
        beta = ",".join(filter(None, (self._beta, headers.get(_BETA), *needed)))
        return WireRequest(path=self.upstream_path, body=body, headers={**headers, _BETA: beta} if beta else headers)

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        return read_reply(body, who=who, author=author)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> MessagesReader:
        return MessagesReader(who=who, author=author)

    def read_error(self, status: int, body: bytes) -> ErrorReport:
        return error_report(status, body)

    def read_models(self, body: bytes, *, who: str) -> ModelPage:
        return read_models(body, who=who)

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

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> MessagesWriter:
        return MessagesWriter(head)

    def write_error(self, problem: Problem) -> bytes:
        return write_error(problem)

    def write_error_event(self, problem: Problem) -> bytes:
        return write_error_event(problem)

    def complaint(self, path: str, body: object) -> JsonObject | None:
        return complaint(body, mid_system=self._mid_system is not False)

    def _takes_system(self, author: str) -> bool:
        """Returns whether a system message may stand within the conversation: only then can it bring tools."""
        if self._mid_system is not None:
            return self._mid_system
        return capabilities_of(author, wire=self.name).deferral == "additions"


WIRE = MessagesWire()
