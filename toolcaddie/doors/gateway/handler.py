"""Handles the gateway's requests to a model, over any wire (API format).

A request without tools is forwarded to the upstream, the model's API, byte for byte. Every other request is answered by a run,
Toolcaddie's own loop: it selects tools, asks the model and executes its calls. A door is a path for requests to models; each has
a handler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial
from typing import Any, Protocol, runtime_checkable

import msgspec

from toolcaddie.core.bounds import LARGE
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import MarksActed, ShutdownError, mark_acted
from toolcaddie.core.events import (
    CallFinished,
    RunEvent,
    RunFinished,
    RunPaused,
    TextDelta,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import ModelReply
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.core.selection import Selection
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope, Problem
from toolcaddie.doors.gateway.access import key_headers
from toolcaddie.doors.gateway.aliases import with_model
from toolcaddie.doors.gateway.answers import AnswerDeltas, reply_of
from toolcaddie.doors.gateway.bodies import Share
from toolcaddie.doors.gateway.bots import PREFIX, without_model
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.hidden import Restored
from toolcaddie.doors.gateway.idempotency import HEADER, Run, has_intended_call, key_refusal, new_run_id
from toolcaddie.doors.gateway.limiting import ACCOUNT, charged
from toolcaddie.doors.gateway.onward import is_whole, pass_on, read_whole
from toolcaddie.doors.gateway.report_headers import claim_headers, ending_headers, report_headers, sent_count
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.run_requests import RunRequests
from toolcaddie.doors.gateway.serving import Admitted, Serving
from toolcaddie.doors.gateway.tool_lists import NO_CLIENT_TOOLS, ClientTools, ToolLists
from toolcaddie.doors.gateway.traffic import away
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Forwarder, Provider, RawResponse
from toolcaddie.ports.wires import DoorWire, StreamWriter
from toolcaddie.providers.whole import pieces_of
from toolcaddie.providers.wrapping import wire_of
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)


ANSWER_ID = "answer_id"
"""The place in `Exchange.context` of the id of an answer whose run may have another one, because it began again."""


@runtime_checkable
class ReadsReplies(Protocol):
    """A wire that reads answers of a provider too, as every shipped wire of a door does."""

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply: ...


class ModelHandler:
    """Answers the requests of one door, whose clients use `wire`. It caches the tool lists of clients."""

    _spends = True
    """True if requests cost tokens."""

    def __init__(self, wire: DoorWire, serving: Serving) -> None:
        self._wire = wire
        self._runtime = serving.runtime
        self._limiter = serving.limiter
        self._event_log = serving.event_log
        self._once = serving.once
        self._hidden = serving.hidden
        self._bounds = serving.bounds
        self._bodies = serving.bodies
        self._lists = ToolLists(wire.read_tools, bounds=serving.bounds, untrusted=serving.untrusted)
        self._onward = serving.onward
        self._key_headers = key_headers(wire.name)
        self._forwarder = _forwarder_of(serving.runtime.provider, wire) if serving.forwards else None
        self._forward_path = wire.upstream_path
        self._aliases = serving.aliases
        self._default_model = serving.default_model
        self._bots = serving.bots
        self._run_requests = RunRequests(wire, serving)
        self._forward_counter, self._run_counter = serving.ways.labels("forwarded"), serving.ways.labels("run")

    async def handle(self, exchange: Exchange, caller: Caller) -> None:
        """Reads the body and answers the request."""
        if HEADER in exchange.headers and (refusal := key_refusal(exchange.headers[HEADER])):
            await exchange.refuse(refusal)
            return
        with self._bodies.share() as share:
            body = await exchange.body(share)
            if body is None:
                return
            if isinstance(body, Problem):
                await exchange.refuse(body)
                return
            await self._handle(exchange, body, share, caller)

    async def _handle(self, exchange: Exchange, body: bytes, share: Share, caller: Caller) -> None:
        """Opens the request, and answers it if the limits of its key allow it."""
        large = len(body) >= LARGE
        open_envelope = partial(self._wire.open, body, self._bounds)
        envelope = await aside(open_envelope) if large else open_envelope()
        if (renamed := with_model(envelope, self._aliases, self._default_model)) is not None:
            envelope, body = renamed
        caller = self._bots.caller_of(envelope, caller)
        opened = await self._opened(exchange, envelope, caller)
        if opened is not envelope:
            envelope, body = opened, msgspec.json.encode(opened.fields)
        account = None
        if self._spends:
            fields = self._bots.priced(envelope) if caller.by_bot else envelope.fields
            account = await self._limiter.admit(exchange, caller.key, fields, size=len(body))
        if account is None:
            await self._admitted(exchange, envelope, body, share, caller)
            return
        exchange.context[ACCOUNT] = account
        try:
            await self._admitted(exchange, envelope, body, share, caller)
        finally:
            if not account.detached:
                account.settle()

    async def _admitted(
        self, exchange: Exchange, envelope: Envelope, body: bytes, share: Share, caller: Caller
    ) -> None:
        """Forwards the request or answers it with a run. As soon as the body is read, its bytes no longer count in `share`."""
        principal, keyed = self._runtime.identified(caller.principal), caller.keyed
        async with self._catalog(exchange, envelope, principal):
            forwarder = self._forwarder_for(exchange, envelope, caller, principal)
            use_catalog = self._joins_catalog(exchange, envelope, principal)
        admitted = Admitted(envelope=envelope, body=body, caller=caller, principal=principal)
        run: Run | None = None
        if forwarder is None:
            self._run_counter.inc()
            read_request = partial(self._read, envelope)
            request, tools = await aside(read_request) if len(body) >= LARGE else read_request()
            admitted = replace(admitted, request=request)
            run = partial(
                self._with_catalog,
                door_request=request,
                tools=tools,
                envelope=envelope,
                use_catalog=use_catalog,
                principal=principal,
                headers=self._headers(exchange, keyed=keyed, once=False),
            )
        share.give()
        own_run, run = run, self._scheduled(run, exchange, admitted)
        if run is None:
            assert forwarder is not None, "a request that is not forwarded has a run"
            self._forward_counter.inc()
            headers = self._headers(exchange, keyed=keyed, once=True)
            await exchange.while_connected(self._forward(forwarder, exchange, body, headers, envelope))
        elif HEADER in exchange.headers:
            client_key = b"" if keyed else self._client_key(exchange)
            door = self._wire.name
            resumes = run is own_run  # what is answered later goes on by itself
            await self._once.answer(exchange, body, principal, run, door=door, client_key=client_key, resumes=resumes)
        else:
            await exchange.while_connected(run(exchange, run_id=new_run_id()))

    def _forwarder_for(
        self, exchange: Exchange, envelope: Envelope, caller: Caller, principal: Principal
    ) -> Forwarder | None:
        """Returns the upstream that the request is passed on to unchanged; None: it is answered by a run."""
        forwards = not self._bots.must_run(caller, principal) and self._forwarder is not None
        return self._forwarder if forwards and self._forwards(exchange, envelope, caller, principal) else None

    def _scheduled(self, run: Run | None, exchange: Exchange, admitted: Admitted) -> Run | None:
        """Returns the function that answers the request; None: it is passed on. A door may answer that it was accepted, and let
        it continue afterwards. `run` None: it is passed on unless the door answers so."""
        return run

    async def _opened(self, exchange: Exchange, envelope: Envelope, caller: Caller) -> Envelope:
        """Returns the request as it is answered. A door with a memory of its own adds what a request refers to."""
        return envelope

    def _forwards(self, exchange: Exchange, envelope: Envelope, caller: Caller, principal: Principal) -> bool:
        """Returns True if the request is passed on unchanged, provided that the upstream uses the wire of the door."""
        return not self._has_choice(exchange, envelope, principal)

    async def _answered(
        self, exchange: Exchange, envelope: Envelope, principal: Principal, answer: bytes | StreamWriter
    ) -> None:
        """Stores what a door remembers of an answer, before its end is sent. `answer`: its body, or the writer of its stream."""

    def _headers(self, exchange: Exchange, *, keyed: bool, once: bool) -> dict[str, str]:
        """Returns the client's headers that go to the upstream. `keyed`: the client's key is a key of the gateway, and is not
        forwarded. `once`: the request becomes exactly one upstream request, so more headers may be forwarded."""
        return self._onward.headers(exchange.headers, keyed=keyed, once=once, key_headers=self._key_headers)

    def _client_key(self, exchange: Exchange) -> bytes:
        """Returns the API keys that the client sent, which tell the senders of idempotency keys apart."""
        return b"\0".join(exchange.headers[name] for name in self._key_headers if name in exchange.headers)

    def _read(self, envelope: Envelope) -> tuple[DoorRequest, ClientTools]:
        request = self._read_door(envelope)
        if not envelope.has_tools and not request.tools:
            return request, NO_CLIENT_TOOLS
        tools = self._lists.read(envelope.tools if envelope.has_tools else b"[]", request.tools)
        return replace(request, own_forms=tools.own_forms) if tools.own_forms else request, tools

    def _read_door(self, envelope: Envelope) -> DoorRequest:
        return self._wire.read_request(envelope, self._bounds)

    def _has_choice(self, exchange: Exchange, envelope: Envelope, principal: Principal) -> bool:
        """Returns True if there are tools to select from: tools of the client, or tools of the catalog."""
        return envelope.has_tools or self._joins_catalog(exchange, envelope, principal)

    def _joins_catalog(self, exchange: Exchange, envelope: Envelope, principal: Principal) -> bool:
        """Returns True if the tools of the catalog join the request, which is the default. The catalog of the principal's tenant
        is held, if the request wants it."""
        return self._wants_catalog(exchange, envelope) and len(self._runtime.catalogs.snapshot(principal.tenant)) > 0

    def _catalog(
        self, exchange: Exchange, envelope: Envelope, principal: Principal
    ) -> AbstractAsyncContextManager[None]:
        """Returns the context manager in whose block the catalog of the principal's tenant is open, if the request wants it."""
        return self._runtime.holding(principal.tenant) if self._wants_catalog(exchange, envelope) else nullcontext()

    def _wants_catalog(self, exchange: Exchange, envelope: Envelope) -> bool:
        """Returns True unless the client wants no tools of the catalog, or none at all."""
        if exchange.headers.get(b"x-toolcaddie-catalog", b"").strip().lower() == b"none":
            return False
        return not self._wire.declines_tools(envelope)

    # --- forwarding --------------------------------------------------------------------------------------------------

    async def _forward(
        self, provider: Forwarder, exchange: Exchange, body: bytes, headers: Mapping[str, str], envelope: Envelope
    ) -> None:
        """Sends the client's body to the upstream and the upstream's answer to the client, both unchanged. If the client asked
        for a stream and the upstream answers with a whole answer, the answer becomes a stream."""
        path = self._forward_path
        if exchange.query:
            path = f"{path}?{exchange.query.decode('latin-1')}"
        away()
        try:
            with charged(exchange, observed=True):
                response = await provider.forward("POST", path, body, headers)
                if bytes(envelope.fields.get("stream", b"")) == b"true" and is_whole(response):
                    await self._stream_whole(response, exchange, envelope)
                else:
                    await pass_on(response, exchange)
        except asyncio.CancelledError as error:
            if not self._runtime.stopping:
                raise
            raise ShutdownError("the server was shut down before the upstream had answered") from error

    async def _stream_whole(self, response: RawResponse, exchange: Exchange, envelope: Envelope) -> None:
        """Streams the whole answer of an upstream."""
        body = await read_whole(response, self._bounds.answer)
        wire = self._wire
        assert isinstance(wire, ReadsReplies)
        reply = wire.read_reply(body, who=self._runtime.provider.name, author=wire.name)
        door_request = self._read_door(envelope)
        writer = wire.write_stream(door_request, self._head(exchange, door_request, new_run_id(), envelope))
        stream = _streamed(writer, reply)
        await exchange.start(200, STREAM_HEADERS)
        await exchange.write(stream, more=False)

    # --- a run -------------------------------------------------------------------------------------------------------

    async def _with_catalog(
        self, exchange: Exchange, *, use_catalog: bool, principal: Principal, **options: Any
    ) -> None:
        """Answers as `_run` does, and keeps the catalog of the principal's tenant open meanwhile."""
        run = partial(self._run, exchange, use_catalog=use_catalog, principal=principal, **options)
        if not use_catalog:
            await run()
            return
        async with self._runtime.holding(principal.tenant):
            await run()

    async def _run(
        self,
        exchange: Exchange,
        *,
        run_id: str,
        lease: int | None = None,
        door_request: DoorRequest,
        tools: ClientTools,
        envelope: Envelope,
        use_catalog: bool,
        principal: Principal,
        headers: Mapping[str, str],
        resumes: bool = False,
    ) -> None:
        """Answers the request with a run. `tools`: the client's own tools. `use_catalog`: True if the tools of the catalog join
        them. `headers`: the client's headers for the upstream. `lease`: the number of the process that owns the run, if its
        outcome is stored for repeated requests. `resumes`: the run is stored, and continues."""
        request, restored = await self._run_requests.of(
            exchange,
            door_request,
            tools,
            principal,
            use_catalog=use_catalog,
            headers=headers,
            run_id=run_id,
            lease=lease,
        )
        answer = self._answer_stream if door_request.stream else self._answer_whole
        if resumes:
            answer = self._answer_resumed
        try:
            # `MarksActed` records in an error whether tools had run, also if writing the answer fails.
            with charged(exchange), MarksActed() as marks:
                await answer(exchange, door_request, request, restored, marks, envelope)
        except asyncio.CancelledError as error:
            if not self._runtime.stopping:
                raise
            shutdown = ShutdownError("the server was shut down before the run had ended")
            mark_acted(shutdown, await has_intended_call(self._event_log, run_id))
            raise shutdown from error

    async def _answer_resumed(
        self,
        exchange: Exchange,
        door_request: DoorRequest,
        request: RunRequest,
        restored: Restored,
        marks: MarksActed,
        envelope: Envelope,
    ) -> None:
        """Answers with the result of a stored run, which goes on unless it waits for a person."""
        run_id = request.run_id or ""
        marks.acted = True
        questions = await self._runtime.questions(run_id)
        if any(question.status == "open" for question in questions):
            result = await self._runtime.waiting(run_id)
        else:
            result = await self._runtime.resume(run_id, principal=request.principal, headers=request.headers)
        await self._send_result(exchange, door_request, request, restored, result, marks, envelope)

    async def _answer_whole(
        self,
        exchange: Exchange,
        door_request: DoorRequest,
        request: RunRequest,
        restored: Restored,
        marks: MarksActed,
        envelope: Envelope,
    ) -> None:
        """Answers with the whole result of the run. `marks` records whether tools have run, so that a later error, such
        as a failure to write the answer, can say so."""
        result = await self._runtime.run(request)
        await self._send_result(exchange, door_request, request, restored, result, marks, envelope)

    async def _send_result(
        self,
        exchange: Exchange,
        door_request: DoorRequest,
        request: RunRequest,
        restored: Restored,
        result: RunResult,
        marks: MarksActed,
        envelope: Envelope,
    ) -> None:
        """Sends the result of a run that has ended."""
        marks.acted = bool(result.state.called)
        reply = self._reply_of(result, door_request)
        await self._hidden.keep(result, restored, request.principal, shown=bool(reply.message.native))
        headers = report_headers(result.run_id, result.selection or Selection(), sent_count(result))
        headers |= claim_headers(result) | ending_headers(result.ending)
        head = self._head(exchange, door_request, request.run_id or "", envelope)
        if door_request.stream:
            writer = self._wire.write_stream(door_request, head)
            body = _streamed(writer, reply)
            await self._answered(exchange, envelope, request.principal, writer)
            await exchange.start(200, STREAM_HEADERS | headers)
            await exchange.write(body, more=False)
            return
        body = self._wire.write_reply(reply, head)
        await self._answered(exchange, envelope, request.principal, body)
        away()
        await exchange.answer(200, body, headers)

    async def _answer_stream(
        self,
        exchange: Exchange,
        door_request: DoorRequest,
        request: RunRequest,
        restored: Restored,
        marks: MarksActed,
        envelope: Envelope,
    ) -> None:
        """Streams the answer. The status is sent together with the first piece of text, so that an earlier failure can have a
        status of its own."""
        writer = self._wire.write_stream(
            door_request, self._head(exchange, door_request, request.run_id or "", envelope)
        )
        deltas = AnswerDeltas(wire=self._wire.name)
        selection, number, run_id = Selection(), 0, request.run_id or ""
        result: RunResult | None = None
        events: AsyncIterator[RunEvent] = self._runtime.stream(request)
        async with aclosing(events):  # type: ignore[type-var]
            async for event in events:
                run_id = event.run_id
                match event:
                    case ToolsSelected():
                        selection = event.selection
                    case ToolsDelivered():
                        number = len(event.delivery.definitions)
                    case CallFinished() if event.result.error != "not_run":
                        marks.acted = True
                    case RunFinished() | RunPaused():
                        result = _result_of(event)
                        continue
                delta = deltas.of(event)
                if delta is not None and (data := writer.add(delta)):
                    if not exchange.started:
                        headers = STREAM_HEADERS | report_headers(run_id, selection, number)
                        await exchange.start(200, headers | ending_headers(_ending_of(event)))
                    await exchange.write(data)
        assert result is not None, "a run's stream ends with its result or raises"
        reply = self._reply_of(result, door_request)
        shown = bool(reply.message.native) and deltas.passed_events
        await self._hidden.keep(result, restored, request.principal, shown=shown)
        if not exchange.started:
            headers = report_headers(run_id, selection, number) | claim_headers(result)
            await exchange.start(200, STREAM_HEADERS | headers | ending_headers(result.ending))
        last_delta = deltas.approval_delta(result)
        ending = b"" if last_delta is None else writer.add(last_delta)
        ending += writer.end(reply)
        await self._answered(exchange, envelope, request.principal, writer)
        away()
        await exchange.write(ending, more=False)

    def _reply_of(self, result: RunResult, door_request: DoorRequest) -> ModelReply:
        """Returns the reply that the answer is written from."""
        reply = reply_of(result, self._wire)
        return without_model(reply) if door_request.model.startswith(PREFIX) else reply

    def _head(self, exchange: Exchange, door_request: DoorRequest, run_id: str, envelope: Envelope) -> AnswerHead:
        answer_id = exchange.context.get(ANSWER_ID, run_id)
        return AnswerHead(
            id=answer_id, created=int(time.time()), model=door_request.model, own_forms=door_request.own_forms
        )


STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


def _forwarder_of(provider: Provider, wire: DoorWire) -> Forwarder | None:
    """Returns the provider if requests of this wire can be forwarded to it unchanged, else None."""
    return provider if isinstance(provider, Forwarder) and wire_of(provider) == wire.name else None


def _streamed(writer: StreamWriter, reply: ModelReply) -> bytes:
    """Returns the stream of a reply that came as a whole."""
    pieces = () if reply.message.native else pieces_of(reply)
    return b"".join(map(writer.add, pieces)) + writer.end(reply)


def _ending_of(event: RunEvent) -> str:
    return event.ending if isinstance(event, TextDelta) else ""


def _result_of(event: RunFinished | RunPaused) -> RunResult:
    if isinstance(event, RunFinished):
        return event.result
    return RunResult(run_id=event.run_id, status="pending", text=event.state.text, state=event.state)
