"""Stored responses of the Responses API: `store`, `previous_response_id`, and the routes that show and delete them.

A response belongs to the principal that asked for it; if the server has no keys, to everybody who sends the same upstream key.
The database keeps the input and the answer for the time in the settings. The upstream is told to store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.transcript import digest_of
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope
from toolcaddie.doors.gateway.access import key_headers
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.handler import ModelHandler, Serving
from toolcaddie.doors.gateway.passing import Passing
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.ports import Store
from toolcaddie.ports.wires import DoorWire, StreamWriter
from toolcaddie.util.replacing import replace
from toolcaddie.wires import responses
from toolcaddie.wires.bodies import ENCODER, UNREADABLE, field_value

_KIND = "response"
_PREVIOUS = "previous_response_id"
_ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "temperature", "tool_choice"),
    *("top_p", "truncation", "user"),
)
"""Fields of a request that its answer repeats."""
_PAGE, _LARGEST_PAGE = 20, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A response with all input that led to it, except what the upstream itself has stored under the id `upstream`."""

    input: Sequence[Any]
    response: JsonObject
    upstream: str = ""


class StoredResponses:
    """Stores responses for `seconds`; None: nothing is stored."""

    def __init__(self, documents: Store, *, seconds: float | None) -> None:
        self._documents = documents
        self._seconds = seconds

    @property
    def enabled(self) -> bool:
        return self._seconds is not None

    async def get(self, response_id: str, owner: Sequence[str]) -> StoredResponse | None:
        value = await self._documents.get(_KIND, _key(response_id, owner))
        return None if value is None else msgspec.json.decode(value, type=StoredResponse)

    async def put(self, stored: StoredResponse, owner: Sequence[str]) -> None:
        key = _key(stored.response["id"], owner)
        await self._documents.put(_KIND, key, ENCODER.encode(stored), ttl=self._seconds)

    async def delete(self, response_id: str, owner: Sequence[str]) -> None:
        await self._documents.delete(_KIND, _key(response_id, owner))


class ResponsesHandler(ModelHandler):
    """Answers the requests of the Responses door."""

    def __init__(self, wire: DoorWire, serving: Serving, stored: StoredResponses) -> None:
        super().__init__(wire, serving)
        self._stored = stored

    async def _opened(self, exchange: Exchange, envelope: Envelope, caller: Caller) -> Envelope:
        """Returns the request with the input of the response that it continues. An id that is not stored here is left for an
        upstream that is asked with the client's own key, which may have stored it."""
        if field_value(envelope.fields.get("background", b"null"), what="background") is True:
            raise RequestError(
                "'background' is not supported here; leave it out, or stream the response", param="background"
            )
        previous = field_value(envelope.fields.get(_PREVIOUS, b"null"), what=_PREVIOUS)
        if previous is None:
            return envelope
        if not isinstance(previous, str):
            raise RequestError(f"'{_PREVIOUS}' must be a string", param=_PREVIOUS)
        earlier = await self._stored.get(previous, self._owner(exchange, caller.principal))
        if earlier is None:
            if self._may_know(exchange, caller):
                return envelope
            message = f"Previous response with id '{previous[:100]}' not found."
            raise RequestError(message, param=_PREVIOUS, code="previous_response_not_found")
        fields = dict(envelope.fields)
        output = [_without_id(item) for item in earlier.response["output"]]
        fields["input"] = msgspec.Raw(ENCODER.encode([*earlier.input, *output, *_input_items(envelope)]))
        exchange.context[_PREVIOUS] = previous
        if earlier.upstream:
            fields[_PREVIOUS] = msgspec.Raw(ENCODER.encode(earlier.upstream))
        else:
            del fields[_PREVIOUS]
        return Envelope(fields)

    def _forwards(self, exchange: Exchange, envelope: Envelope, caller: Caller) -> bool:
        """Returns True if the request may be passed on. With the server's key, an answer that is to be stored is not: what the
        upstream stores could be read by everybody who uses that key."""
        if not super()._forwards(exchange, envelope, caller):
            return False
        return bytes(envelope.fields.get("store", b"")) == b"false" or self._may_know(exchange, caller)

    def _may_know(self, exchange: Exchange, caller: Caller) -> bool:
        """Returns True if the upstream has the Responses API and is asked with the client's own key."""
        headers = self._headers(exchange, keyed=caller.keyed, once=False)
        return self._forwarder is not None and self._onward.key_header in headers

    def _read_door(self, envelope: Envelope) -> DoorRequest:
        """Reads the request. An id that only the upstream can know goes to it as a parameter; `store` does not, because the
        response is stored here."""
        previous = envelope.fields.get(_PREVIOUS, b"null")
        fields = {name: value for name, value in envelope.fields.items() if name not in (_PREVIOUS, "store")}
        request = super()._read_door(Envelope(fields))
        if bytes(previous) == b"null":
            return request
        return replace(request, params={**request.params, _PREVIOUS: field_value(previous, what=_PREVIOUS)})

    def _head(self, exchange: Exchange, door_request: DoorRequest, run_id: str, envelope: Envelope) -> AnswerHead:
        head = super()._head(exchange, door_request, run_id, envelope)
        echo = {name: field_value(envelope.fields[name], what=name) for name in _ECHOED if name in envelope.fields}
        echo = {name: value for name, value in echo.items() if value is not None}
        echo["store"] = self._stores(envelope)
        echo[_PREVIOUS] = exchange.context.get(_PREVIOUS) or door_request.params.get(_PREVIOUS)
        return replace(head, echo=echo)

    def _stores(self, envelope: Envelope) -> bool:
        return self._stored.enabled and bytes(envelope.fields.get("store", b"")) != b"false"

    async def _answered(
        self, exchange: Exchange, envelope: Envelope, principal: Principal, answer: bytes | StreamWriter
    ) -> None:
        if not self._stores(envelope):
            return
        response = msgspec.json.decode(answer) if isinstance(answer, bytes) else getattr(answer, "response", None)
        if not isinstance(response, dict):
            return
        upstream = field_value(envelope.fields.get(_PREVIOUS, b'""'), what=_PREVIOUS) or ""
        stored = StoredResponse(input=_input_items(envelope), response=response, upstream=upstream)
        await self._stored.put(stored, self._owner(exchange, principal))

    def _owner(self, exchange: Exchange, principal: Principal) -> tuple[str, ...]:
        return owner_of(exchange, self._runtime.identified(principal))


class ResponsePages:
    """Shows and deletes stored responses. If a response is not stored here, the upstream is asked, if `passing` allows it."""

    def __init__(self, stored: StoredResponses, passing: Passing, identified: Any) -> None:
        self._stored = stored
        self._passing = passing
        self._identified = identified

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            self._route("GET", "/v1/responses/{id}", self._show),
            self._route("DELETE", "/v1/responses/{id}", self._delete),
            self._route("GET", "/v1/responses/{id}/input_items", self._input),
            self._route("POST", "/v1/responses/{id}/cancel", self._cancel),
        )

    def _route(self, method: Literal["GET", "POST", "DELETE"], path: str, answer: Any) -> Route:
        async def handle(exchange: Exchange, caller: Caller) -> None:
            owner = owner_of(exchange, self._identified(caller.principal))
            stored = await self._stored.get(exchange.part, owner)
            if stored is not None:
                await answer(exchange, stored, owner)
            elif self._passing.may_accept(method, exchange.path) and self._passing.accepts(method, exchange, caller):
                await self._passing.handle(method, exchange, caller)
            else:
                message = f"Response with id '{exchange.part[:100]}' not found."
                await exchange.refuse(problem(404, message, kind="invalid_request_error", param="id"))

        return Route(
            method=method, path=path, handle=handle, wire=responses.WIRE, key_headers=key_headers(responses.WIRE.name)
        )

    async def _show(self, exchange: Exchange, stored: StoredResponse, owner: Sequence[str]) -> None:
        if _query(exchange).get("stream") == "true":
            message = "a stored response is returned whole; leave out 'stream'"
            await exchange.refuse(problem(400, message, kind="invalid_request_error", param="stream"))
            return
        await exchange.answer(200, ENCODER.encode(stored.response), {})

    async def _delete(self, exchange: Exchange, stored: StoredResponse, owner: Sequence[str]) -> None:
        await self._stored.delete(exchange.part, owner)
        body = {"id": exchange.part, "object": "response", "deleted": True}
        await exchange.answer(200, ENCODER.encode(body), {})

    async def _cancel(self, exchange: Exchange, stored: StoredResponse, owner: Sequence[str]) -> None:
        message = "Only a response with 'background' can be cancelled, and this one is complete."
        await exchange.refuse(problem(400, message, kind="invalid_request_error", code="not_cancellable"))

    async def _input(self, exchange: Exchange, stored: StoredResponse, owner: Sequence[str]) -> None:
        query = _query(exchange)
        items = [{"id": f"item_{exchange.part}_{place}", **_listed(item)} for place, item in enumerate(stored.input)]
        if query.get("order", "desc") != "asc":
            items.reverse()
        ids = [item["id"] for item in items]
        if (after := query.get("after")) in ids:
            items = items[ids.index(after) + 1 :]
        size = int(query["limit"]) if query.get("limit", "").isdigit() else _PAGE
        page = items[: min(max(1, size), _LARGEST_PAGE)]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        body = {"object": "list", "data": page, **ends, "has_more": len(page) < len(items)}
        await exchange.answer(200, ENCODER.encode(body), {})


def owner_of(exchange: Exchange, principal: Principal) -> tuple[str, ...]:
    """Returns the owner of the responses that a request makes: its principal, and the client's own upstream key."""
    sent_keys = (exchange.headers.get(name, b"").decode("latin-1") for name in key_headers(responses.WIRE.name))
    return (*principal.owner, *(digest_of(key) for key in sent_keys if "tc_" not in key))


def _key(response_id: str, owner: Sequence[str]) -> str:
    return digest_of(*owner, response_id)


def _input_items(envelope: Envelope) -> list[Any]:
    """Returns the input of a request as items. The wire refuses an input of another form."""
    try:
        value = msgspec.json.decode(envelope.fields.get("input", b"null"))
    except UNREADABLE:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value if isinstance(value, list) else []


def _listed(item: Any) -> Mapping[str, Any]:
    """Returns an item of the input as the list shows it, with its content in parts."""
    if not isinstance(item, dict):
        return {}
    whole = {"type": "message", **item}
    if whole["type"] == "message" and isinstance(whole.get("content"), str):
        kind = "output_text" if whole.get("role") == "assistant" else "input_text"
        whole["content"] = [{"type": kind, "text": whole["content"]}]
    return whole


def _without_id(item: JsonObject) -> JsonObject:
    return {name: value for name, value in item.items() if name != "id"}


def _query(exchange: Exchange) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(exchange.query.decode("latin-1")).items()}
