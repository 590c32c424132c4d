"""The wire (format of a model API) of Gemini's generateContent, for the Gemini provider. Toolcaddie sends requests in this format
but does not accept them from clients."""

from __future__ import annotations

from toolcaddie.core.message import ModelRequest
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import WireRequest
from toolcaddie.wires.gemini import errors, models, requests, stream
from toolcaddie.wires.gemini.stream import GeminiReader


class GeminiWire:
    """Writes requests to Gemini and reads its answers. Implements `ports.wires.ClientWire`."""

    name: WireName = "gemini"
    models_path = models.MODELS

    read_reply = staticmethod(stream.read_reply)
    read_error = staticmethod(errors.read_error)
    read_models = staticmethod(models.read_models)

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        method = ":streamGenerateContent?alt=sse" if stream else ":generateContent"
        body = requests.write_request(request, model=model, author=author)
        return WireRequest(path=f"{models.model_path(model)}{method}", body=body, headers=request.headers)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> GeminiReader:
        return GeminiReader(who=who, author=author)


WIRE = GeminiWire()
