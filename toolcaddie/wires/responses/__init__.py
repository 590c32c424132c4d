"""The wire (format of a model API) of OpenAI's Responses API. Every request tells the provider to store nothing."""

from __future__ import annotations

from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import AnswerHead, DoorRequest, WireRequest
from toolcaddie.wires.bodies import JsonDoor, error_report, model_page
from toolcaddie.wires.chat import errors as chat_errors
from toolcaddie.wires.responses import errors, messages, own_forms, replies, requests
from toolcaddie.wires.responses.stream import ResponsesReader, ResponsesWriter
from toolcaddie.wires.responses.strict import complaint
from toolcaddie.wires.responses.visible import own_items


class ResponsesWire(JsonDoor):
    """Reads and writes the Responses API in both directions: for a provider, and for clients of ours. Implements
    `ports.wires.Wire`.

    The reasoning of an earlier answer is sent back, encrypted as it came, to the model that wrote it. The parameters `store` and
    `include` of a request take precedence over ours.
    """

    name: WireName = "responses"
    models_path = "/models"
    upstream_path = "/responses"
    what = requests.WHAT

    read_reply = staticmethod(replies.read_reply)
    read_error = staticmethod(error_report)
    read_models = staticmethod(model_page)

    declines_tools = staticmethod(requests.declines_tools)
    read_request = staticmethod(requests.read_request)
    read_definitions = staticmethod(own_forms.read_tools)
    own_blocks = staticmethod(own_items)
    write_reply = staticmethod(replies.write_reply)
    write_error = staticmethod(chat_errors.write_error)
    write_error_event = staticmethod(errors.write_error_event)

    def __init__(self) -> None:
        self._tools = messages.ToolForms()

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        body = requests.write_request(request, model=model, stream=stream, author=author, tools=self._tools)
        return WireRequest(path=self.upstream_path, body=body, headers=request.headers)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> ResponsesReader:
        own = request.client_wire == self.name
        return ResponsesReader(who=who, author=author, events=own, namespaces=_namespaces_of(request))

    def read_reply_to(self, request: ModelRequest, body: bytes, *, who: str, author: str) -> ModelReply:
        return replies.read_reply(body, who=who, author=author, namespaces=_namespaces_of(request))

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> ResponsesWriter:
        return ResponsesWriter(head)

    def complaint(self, path: str, body: object) -> JsonObject | None:
        return complaint(body)


def _namespaces_of(request: ModelRequest) -> frozenset[str]:
    return own_forms.namespaces_of(request.own_forms) if request.client_wire == ResponsesWire.name else frozenset()


WIRE = ResponsesWire()
