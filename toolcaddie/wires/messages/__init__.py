"""The wire (format of a model API) of Anthropic's Messages API and of servers compatible with it."""

from __future__ import annotations

from toolcaddie.core.capabilities import capabilities_of
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import AnswerHead, DoorRequest, WireRequest
from toolcaddie.wires.bodies import JsonDoor, error_report
from toolcaddie.wires.messages import errors, models, replies, requests, tools
from toolcaddie.wires.messages.stream import MessagesReader, MessagesWriter
from toolcaddie.wires.messages.strict import complaint
from toolcaddie.wires.messages.visible import own_blocks

MAX_TOKENS = 16_000
_BETA = "anthropic-beta"


class MessagesWire(JsonDoor):
    """Reads and writes the Messages API in both directions: for a provider, and for clients of ours. Implements
    `ports.wires.Wire`.

    `max_tokens` limits an answer if its request has no limit, because the API requires one. `mid_system`: True if the models
    accept system messages within the conversation, False if such messages must be sent as notes in the user's turn, None if the
    capability table decides. `beta`: features of the API that every request names, separated by commas.
    """

    name: WireName = "messages"
    models_path = "/v1/models?limit=1000"
    upstream_path = "/v1/messages"
    what = requests.WHAT

    read_reply = staticmethod(replies.read_reply)
    read_error = staticmethod(error_report)
    read_models = staticmethod(models.read_models)

    declines_tools = staticmethod(requests.declines_tools)
    read_request = staticmethod(requests.read_request)
    read_definitions = staticmethod(tools.read_tools)
    own_blocks = staticmethod(own_blocks)
    write_reply = staticmethod(replies.write_reply)
    write_error = staticmethod(errors.write_error)
    write_error_event = staticmethod(errors.write_error_event)

    def __init__(self, *, max_tokens: int = MAX_TOKENS, mid_system: bool | None = None, beta: str = "") -> None:
        self._max_tokens = max_tokens
        self._mid_system = mid_system
        self._beta = beta
        self._tools = tools.WireTools()

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        """Writes a request. One header names all beta features: those of the wire, of the caller, and of the request."""
        body, needed = requests.write_request(
            request,
            model=model,
            stream=stream,
            author=author,
            tools=self._tools,
            max_tokens=self._max_tokens,
            mid_system=self._accepts_mid_system(author),
        )
        headers = {name.lower(): value for name, value in (request.headers or {}).items()}
        beta = ",".join(filter(None, (self._beta, headers.get(_BETA), *needed)))
        return WireRequest(path=self.upstream_path, body=body, headers={**headers, _BETA: beta} if beta else headers)

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> MessagesReader:
        return MessagesReader(who=who, author=author, events=request.client_wire == self.name)

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> MessagesWriter:
        return MessagesWriter(head)

    def complaint(self, path: str, body: object) -> JsonObject | None:
        return complaint(body, mid_system=self._mid_system is not False)

    def _accepts_mid_system(self, author: str) -> bool:
        """Returns True if the model accepts system messages within the conversation. Only such messages can add tools."""
        if self._mid_system is not None:
            return self._mid_system
        return capabilities_of(author, wire=self.name).deferral == "additions"


WIRE = MessagesWire()
