"""Gemini's generateContent."""

from __future__ import annotations

from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import ErrorReport, ModelPage, WireRequest
from toolcaddie.wires.gemini.errors import read_error
from toolcaddie.wires.gemini.models import MODELS, model_path, read_models
from toolcaddie.wires.gemini.requests import write_request
from toolcaddie.wires.gemini.stream import GeminiReader, read_reply


class GeminiWire:
    """Implements `ports.wires.ClientWire`."""

    name: WireName = "gemini"
    models_path = MODELS

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        method = ":streamGenerateContent?alt=sse" if stream else ":generateContent"
        body = write_request(request, model=model, author=author)
        return WireRequest(path=f"{model_path(model)}{method}", body=body, headers=request.headers)

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        return read_reply(body, who=who, author=author)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> GeminiReader:
        return GeminiReader(who=who, author=author)

    def read_error(self, status: int, body: bytes) -> ErrorReport:
        return read_error(status, body)

    def read_models(self, body: bytes, *, who: str) -> ModelPage:
        return read_models(body, who=who)


WIRE = GeminiWire()
