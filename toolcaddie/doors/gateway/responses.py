"""Handles the requests of the Responses door: what it adds to other doors are responses that are stored and continued.

The upstream is told to store nothing, except for requests that are passed on with a client's own upstream key.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope
from toolcaddie.doors.gateway.background import BackgroundResponses
from toolcaddie.doors.gateway.deferred import Deferred
from toolcaddie.doors.gateway.deferring import Deferring
from toolcaddie.doors.gateway.deferring_handler import DeferringHandler
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.following import followed
from toolcaddie.doors.gateway.handler import STREAM_HEADERS
from toolcaddie.doors.gateway.idempotency import Run
from toolcaddie.doors.gateway.jobs import Job
from toolcaddie.doors.gateway.limiting import ACCOUNT, Account
from toolcaddie.doors.gateway.onward import read_whole
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.serving import Admitted, Serving
from toolcaddie.doors.gateway.stored import Owner, StoredResponse, StoredResponses, items_of, owner_of
from toolcaddie.ports import RawResponse
from toolcaddie.ports.wires import DoorWire, StreamWriter
from toolcaddie.util.replacing import replace
from toolcaddie.wires.bodies import ENCODER, field_value
from toolcaddie.wires.responses.replay import replayed
from toolcaddie.wires.responses.replies import begun_response, response_id_of

_PREVIOUS = "previous_response_id"
_CONVERSATION = "conversation"
_JOB = "job"
"""Name of the background job in the context of its request."""
_NOT_SENT = (_PREVIOUS, "store", "background")
"""Fields of a request that its run does not send to the upstream as they are."""
_CONTINUED = ("completed", "incomplete")
"""Statuses of responses that can be continued."""
_ECHOED = (
    *(
        "background",
        "instructions",
        "max_output_tokens",
        "metadata",
        "parallel_tool_calls",
        "temperature",
        "tool_choice",
    ),
    *("top_p", "truncation", "user"),
)
"""Fields of a request that its answer repeats."""


class ResponsesHandler(DeferringHandler):
    """Answers the requests of the Responses door."""

    def __init__(
        self,
        wire: DoorWire,
        serving: Serving,
        deferring: Deferring,
        stored: StoredResponses,
        background: BackgroundResponses,
    ) -> None:
        super().__init__(wire, serving, deferring)
        self._stored = stored
        self._background = background

    # --- what a request refers to ------------------------------------------------------------------------------------

    async def _opened(self, exchange: Exchange, envelope: Envelope, caller: Caller) -> Envelope:
        """Returns the request with the input of the response that it continues. An id that is not stored here is left for an
        upstream that is asked with the client's own key, which may have stored it."""
        previous = _value(envelope, _PREVIOUS)
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
        if earlier.response.get("status") not in _CONTINUED:
            message = f"Previous response '{previous[:100]}' is {earlier.response.get('status')}, so it has no answer."
            raise RequestError(message, param=_PREVIOUS, code="previous_response_not_complete")
        fields = dict(envelope.fields)
        output = [_without_id(item) for item in earlier.response["output"]]
        fields["input"] = msgspec.Raw(ENCODER.encode([*earlier.input, *output, *_input_items(envelope)]))
        exchange.context[_PREVIOUS] = previous
        if earlier.upstream:
            fields[_PREVIOUS] = msgspec.Raw(ENCODER.encode(earlier.upstream))
        else:
            del fields[_PREVIOUS]
        return Envelope(fields)

    # --- passing on --------------------------------------------------------------------------------------------------

    def _forwards(self, exchange: Exchange, envelope: Envelope, caller: Caller, principal: Principal) -> bool:
        """Returns True if the request may be passed on. With the server's key, an answer that is to be stored is not: what the
        upstream stores could be read by everybody who uses that key. With a client's own key, a request about a conversation at
        the upstream is passed on also with tools, if all of them would be sent."""
        passes = super()._forwards(exchange, envelope, caller, principal)
        if not self._may_know(exchange, caller):
            return passes and bytes(envelope.fields.get("store", b"")) == b"false" and not _is_background(envelope)
        return passes or (
            _value(envelope, _CONVERSATION) is not None and not self._selects(exchange, envelope, principal)
        )

    def _selects(self, exchange: Exchange, envelope: Envelope, principal: Principal) -> bool:
        """Returns True if tools are to be selected: there is a catalog, or the client has more tools than are sent."""
        most = self._runtime.preset.budget.max_tools
        tools = field_value(envelope.tools, what="tools")
        many = isinstance(tools, list) and most is not None and len(tools) > most
        return many or self._joins_catalog(exchange, envelope, principal)

    def _may_know(self, exchange: Exchange, caller: Caller) -> bool:
        """Returns True if the upstream has the Responses API and is asked with the client's own key."""
        headers = self._headers(exchange, keyed=caller.keyed, once=False)
        return self._forwarder is not None and self._onward.key_header in headers

    async def _stream_whole(self, response: RawResponse, exchange: Exchange, envelope: Envelope) -> None:
        """Streams the whole answer of an upstream. The last event has the answer unchanged, also its id."""
        who = self._runtime.provider.name
        body = await read_whole(response, self._bounds.answer)
        stream = replayed(body, who=who)
        await exchange.start(200, STREAM_HEADERS)
        await exchange.write(stream, more=False)

    # --- a run -------------------------------------------------------------------------------------------------------

    def _read_door(self, envelope: Envelope) -> DoorRequest:
        """Reads the request. An id that only the upstream can know goes to it as a parameter; `store` does not, because the
        response is stored here."""
        if not isinstance(_value(envelope, "background"), bool | None):
            raise RequestError("'background' must be true or false", param="background")
        if _is_background(envelope) and not self._stores(envelope):
            message = "a background response must be stored: omit 'store', and keep gateway.keep_responses on"
            raise RequestError(message, param="background")
        previous = envelope.fields.get(_PREVIOUS, b"null")
        fields = {name: value for name, value in envelope.fields.items() if name not in _NOT_SENT}
        request = super()._read_door(Envelope(fields))
        if bytes(previous) == b"null":
            return request
        return replace(request, params={**request.params, _PREVIOUS: field_value(previous, what=_PREVIOUS)})

    def _scheduled(self, run: Run | None, exchange: Exchange, admitted: Admitted) -> Run | None:
        if run is None or not _is_background(admitted.envelope):
            return super()._scheduled(run, exchange, admitted)
        return partial(self._begin, run=run, admitted=admitted)

    async def _begin(
        self, exchange: Exchange, *, run_id: str, lease: int | None = None, run: Run, admitted: Admitted
    ) -> None:
        """Lets the run go on in the background, and answers with the unfinished response, or with the stream of its events."""
        door_request, envelope = admitted.request, admitted.envelope
        assert door_request is not None, "a background response is not passed on"
        owner = owner_of(exchange, admitted.principal)
        begun = begun_response(self._head(exchange, door_request, run_id, envelope))
        upstream = _value(envelope, _PREVIOUS) or ""
        stored = StoredResponse(input=_input_items(envelope), response=begun, upstream=upstream)
        if self._may_defer(exchange, admitted):
            request = self._deferred(exchange, admitted, run_id, background=True)
            await self._background.defer(request, stored, partial(self._hand_in, exchange, request))
            events = followed(self._stored, self._background, begun["id"], owner)
        else:
            job = await self._begin_here(exchange, run, stored, owner, run_id, streams=door_request.stream)
            events = job.follow()
        if not door_request.stream:
            await exchange.answer(200, ENCODER.encode({**begun, "status": "queued"}), {"x-toolcaddie-run": run_id})
            return
        await exchange.start(200, STREAM_HEADERS | {"x-toolcaddie-run": run_id})
        async for data in events:
            await exchange.write(data)
        await exchange.write(b"", more=False)

    async def _begin_here(
        self, exchange: Exchange, run: Run, stored: StoredResponse, owner: Owner, run_id: str, *, streams: bool
    ) -> Job:
        """Begins the run in this process, because no other one could answer the request."""
        account: Account | None = exchange.context.get(ACCOUNT)

        async def work(job: Job) -> None:
            other = exchange.detached(job.send)
            other.context[_JOB] = job
            try:
                await run(other, run_id=run_id, lease=job.stored.lease)
            finally:
                if account is not None:
                    account.settle()

        job = await self._background.begin(work, stored, owner, streams=streams)
        if account is not None:
            account.detached = True
        return job

    async def carry_out(self, request: Deferred, send: Send) -> None:
        if not request.background:
            await super().carry_out(request, send)
            return

        async def work(job: Job) -> None:
            await self._carry_out(request, job.send, {_JOB: job})

        streams = bytes(self._wire.open(request.body, self._bounds).fields.get("stream", b"")) == b"true"
        await self._background.carry_out(response_id_of(request.id), request.owner, work, streams=streams)

    def _head(self, exchange: Exchange, door_request: DoorRequest, run_id: str, envelope: Envelope) -> AnswerHead:
        head = super()._head(exchange, door_request, run_id, envelope)
        echo = {name: value for name in _ECHOED if (value := _value(envelope, name)) is not None}
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
        job: Job | None = exchange.context.get(_JOB)
        if job is not None:
            await self._background.finish(job, response)
            return
        upstream = _value(envelope, _PREVIOUS) or ""
        stored = StoredResponse(input=_input_items(envelope), response=response, upstream=upstream)
        await self._stored.put(stored, self._owner(exchange, principal))

    def _owner(self, exchange: Exchange, principal: Principal) -> Owner:
        return owner_of(exchange, self._runtime.identified(principal))


def _value(envelope: Envelope, name: str) -> Any:
    """Returns the value of a field of the request; None: it has none."""
    return field_value(envelope.fields.get(name, b"null"), what=name)


def _is_background(envelope: Envelope) -> bool:
    return bytes(envelope.fields.get("background", b"")) == b"true"


def _input_items(envelope: Envelope) -> list[Any]:
    return items_of(bytes(envelope.fields.get("input", b"null")))


def _without_id(item: JsonObject) -> JsonObject:
    return {name: value for name, value in item.items() if name != "id"}
