"""The wire (format of a model API) of OpenAI's chat completions and of the many servers compatible with it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import AnswerHead, DoorRequest, WireRequest
from toolcaddie.wires.bodies import JsonDoor, error_report, model_page
from toolcaddie.wires.chat import errors, messages, replies, requests
from toolcaddie.wires.chat.stream import ChatReader, ChatWriter
from toolcaddie.wires.chat.strict import complaint


class ChatWire(JsonDoor):
    """Reads and writes chat completions in both directions: for a provider, and for clients of ours. Implements
    `ports.wires.Wire`.

    `stream_usage=False` is for servers that do not know `stream_options`; the usage of their streams is unknown.
    """

    name: WireName = "chat"
    models_path = "/models"
    upstream_path = "/chat/completions"
    what = requests.WHAT

    read_reply = staticmethod(replies.read_reply)
    read_error = staticmethod(error_report)
    read_models = staticmethod(model_page)

    declines_tools = staticmethod(requests.declines_tools)
    read_request = staticmethod(requests.read_request)
    read_definitions = staticmethod(messages.read_tools)
    write_reply = staticmethod(replies.write_reply)
    write_error = staticmethod(errors.write_error)
    write_error_event = staticmethod(errors.write_error_event)

    def __init__(self, *, stream_usage: bool = True) -> None:
        self._stream_usage = stream_usage

    def own_blocks(self, messages: Sequence[Message], calls: Sequence[ToolCall], ending: str) -> Sequence[JsonObject]:
        """Returns nothing: an answer of chat completions consists of a text and calls."""
        return ()

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        usage = stream and (self._stream_usage or requests.asks_for_usage(request.params))
        body = requests.write_request(request, model=model, stream=stream, usage=usage, author=author)
        return WireRequest(path=self.upstream_path, body=body, headers=request.headers)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> ChatReader:
        """Returns the reader. Usage is always requested, so that the reply has it; `raw` of a delta shows it only if the
        caller requested it."""
        return ChatReader(who=who, show_usage=requests.asks_for_usage(request.params), author=author)

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> ChatWriter:
        return ChatWriter(head, include_usage=requests.asks_for_usage(request.params))

    def complaint(self, path: str, body: object) -> JsonObject | None:
        return complaint(body)


WIRE = ChatWire()
