"""A request to a model, over any wire: spliced through byte for byte where there is nothing to choose, else answered by a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

import aiohttp
from prometheus_client import Counter

from toolcaddie.core.bounds import DEFAULT, LARGE, Bounds
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import MarksActed, ShutdownError, mark_acted
from toolcaddie.core.events import CallFinished, RunEvent, RunFinished, RunPaused, ToolsDelivered, ToolsSelected
from toolcaddie.core.run import RunRequest, RunResult, Transcript
from toolcaddie.core.wire import AnswerHead, DoorRequest, Envelope, Problem
from toolcaddie.doors.gateway.answers import AnswerDeltas, reply_of
from toolcaddie.doors.gateway.bodies import Bodies, Share
from toolcaddie.doors.gateway.essential import PIN_HEADER, Pins, pins_of
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.hidden import HiddenParts, Restored
from toolcaddie.doors.gateway.idempotency import HEADER, Once, intended, new_run_id, wrong_key
from toolcaddie.doors.gateway.onward import Onward, answered_headers, answered_status
from toolcaddie.doors.gateway.router import Caller
from toolcaddie.doors.gateway.tool_lists import NO_CLIENT_TOOLS, ClientTools, ToolLists
from toolcaddie.guards.aside import aside
from toolcaddie.ports import EventLog, Forwarder, Provider, RawResponse
from toolcaddie.ports.wires import DoorWire
from toolcaddie.providers.wrapping import wire_of
from toolcaddie.runtime import Runtime
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What the handlers of all doors share.

    `forwards`: what has no tools goes to the upstream byte for byte, if that speaks the wire of the door. False: it is read and
    asked like everything else, so that others may answer where the upstream fails.
    """

    runtime: Runtime
    event_log: EventLog
    once: Once
    hidden: HiddenParts
    bodies: Bodies
    onward: Onward
    ways: Counter
    forwards: bool = True
    bounds: Bounds = DEFAULT


class ModelHandler:
    """Answers requests to models over `wire`. Holds the tool lists it has read."""

    def __init__(self, wire: DoorWire, serving: Serving) -> None:
        self._wire = wire
        self._runtime = serving.runtime
        self._event_log = serving.event_log
        self._once = serving.once
        self._hidden = serving.hidden
        self._bounds = serving.bounds
        self._bodies = serving.bodies
        self._lists = ToolLists(wire.read_tools, bounds=serving.bounds)
        self._onward = serving.onward
        self._forwarder = _splicing(serving.runtime.provider, wire) if serving.forwards else None
        self._forwarded, self._ran = serving.ways.labels("forwarded"), serving.ways.labels("run")

    async def handle(self, exchange: Exchange, caller: Caller) -> None:
        if HEADER in exchange.headers and (wrong := wrong_key(exchange.headers[HEADER])):
            await exchange.refuse(wrong)
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
        principal, keyed = self._runtime.identified(caller.principal), caller.keyed
        large = len(body) >= LARGE
        opened = partial(self._wire.open, body, self._bounds)
        envelope = await aside(opened) if large else opened()
        if self._forwarder is not None and not self._has_choice(exchange, envelope):
            share.give()
            self._forwarded.inc()
            headers = self._onward.headers(exchange.headers, keyed=keyed, once=True)
            await exchange.while_there(self._forward(self._forwarder, exchange, body, headers))
        else:
            self._ran.inc()
            read = partial(self._read, envelope)
            request, tools = await aside(read) if large else read()
            share.give()
            headers = self._onward.headers(exchange.headers, keyed=keyed)
            run = partial(
                self._run,
                asked=request,
                tools=tools,
                use_catalog=self._joins_catalog(exchange, envelope),
                principal=principal,
                headers=headers,
            )
            if HEADER in exchange.headers:
                await self._once.answer(exchange, body, principal, run, keyed=keyed)
            else:
                await exchange.while_there(run(exchange, run_id=new_run_id()))

    def _read(self, envelope: Envelope) -> tuple[DoorRequest, ClientTools]:
        request = self._wire.read_request(envelope, self._bounds)
        return request, self._lists.read(envelope.tools) if envelope.has_tools else NO_CLIENT_TOOLS

    def _has_choice(self, exchange: Exchange, envelope: Envelope) -> bool:
        return envelope.has_tools or self._joins_catalog(exchange, envelope)

    def _joins_catalog(self, exchange: Exchange, envelope: Envelope) -> bool:
        """Our own tools join every request unless it says otherwise."""
        if exchange.headers.get(b"x-toolcaddie-catalog", b"").strip().lower() == b"none":
            return False
        return not self._wire.declines_tools(envelope) and len(self._runtime.source.snapshot()) > 0

    # --- nothing to choose -------------------------------------------------------------------------------------------

    async def _forward(self, provider: Forwarder, exchange: Exchange, body: bytes, headers: Mapping[str, str]) -> None:
        path = self._wire.upstream_path
        if exchange.query:
            path = f"{path}?{exchange.query.decode('latin-1')}"
        try:
            response = await provider.forward("POST", path, body, headers)
            await self._pass_on(response, exchange)
        except asyncio.CancelledError as error:
            if not self._runtime.stopping:
                raise
            raise ShutdownError("the server was shut down before the upstream had answered") from error

    @staticmethod
    async def _pass_on(response: RawResponse, exchange: Exchange) -> None:
        try:
            await exchange.start(answered_status(response), answered_headers(response))
            while piece := await response.content.readany():
                await exchange.write(piece)
            await exchange.write(b"", more=False)
        except (aiohttp.ClientError, TimeoutError) as error:
            response.close()
            log.warning("upstream_cut_its_answer", error=str(error))  # the client sees its own answer cut as well
        except BaseException:
            response.close()  # a half-read answer must not go back to the pool
            raise
        else:
            response.release()

    # --- a run -------------------------------------------------------------------------------------------------------

    async def _run(
        self,
        exchange: Exchange,
        *,
        run_id: str,
        lease: int | None = None,
        asked: DoorRequest,
        tools: ClientTools,
        use_catalog: bool,
        principal: Principal,
        headers: Mapping[str, str],
    ) -> None:
        restored = await self._hidden.restore(asked.messages, principal)
        request = RunRequest(
            messages=restored.messages,
            principal=principal,
            model=asked.model,
            client_tools=tools.tools,
            use_catalog=use_catalog,
            tool_choice=asked.tool_choice,
            params=asked.params,
            headers=headers,
            conversation=Transcript(
                name=_name_by_client(exchange, asked, restored), digest=restored.digest, answered=restored.answered
            ),
            cache_key=restored.opening,
            run_id=run_id,
            lease=lease,
        )
        pins = self._pins(exchange, asked, tools, request)
        if pins.tools:
            request = replace(request, essential=pins.tools)
        if pins.unknown:
            exchange.note("x-toolcaddie-unpinned", ",".join(pins.unknown))
        answer = self._streamed if asked.stream else self._plain
        try:
            with MarksActed() as marks:  # what fails behind the run is told like what failed in it
                await answer(exchange, asked, request, restored, marks)
        except asyncio.CancelledError as error:
            if not self._runtime.stopping:
                raise
            cut = ShutdownError("the server was shut down before the run had ended")
            mark_acted(cut, await intended(self._event_log, run_id))
            raise cut from error

    def _pins(self, exchange: Exchange, asked: DoorRequest, tools: ClientTools, request: RunRequest) -> Pins:
        return pins_of(
            exchange.headers.get(PIN_HEADER.encode()),
            tools.known,
            asked.tool_choice,
            asked.messages,
            lambda: [tool.name for tool in self._runtime.view(request)],
        )

    async def _plain(
        self, exchange: Exchange, asked: DoorRequest, request: RunRequest, restored: Restored, marks: MarksActed
    ) -> None:
        head = _head(asked, request)
        result = await self._runtime.run(request)
        marks.acted = bool(result.state.called)
        await self._hidden.keep(result, restored, request.principal)
        told = self._told(request, result.selection.catalog_size if result.selection else 0, _sent(result))
        reply = reply_of(result, wire=self._wire.name)
        await exchange.answer(200, self._wire.write_reply(reply, head), told)

    async def _streamed(
        self, exchange: Exchange, asked: DoorRequest, request: RunRequest, restored: Restored, marks: MarksActed
    ) -> None:
        """The status is sent with the first words, so that an upstream that fails before them still gives its status."""
        writer = self._wire.write_stream(asked, _head(asked, request))
        deltas = AnswerDeltas(wire=self._wire.name)
        seen, sent = 0, 0
        result: RunResult | None = None
        events: AsyncIterator[RunEvent] = self._runtime.stream(request)
        async with aclosing(events):  # type: ignore[type-var]
            async for event in events:
                match event:
                    case ToolsSelected():
                        seen = event.selection.catalog_size
                    case ToolsDelivered():
                        sent = len(event.delivery.definitions)
                    case CallFinished() if event.result.error != "not_run":
                        marks.acted = True
                    case RunFinished() | RunPaused():
                        result = _result_of(event)
                        continue
                delta = deltas.of(event)
                if delta is not None and (data := writer.add(delta)):
                    if not exchange.started:
                        await exchange.start(200, _STREAM_HEADERS | self._told(request, seen, sent))
                    await exchange.write(data)
        assert result is not None, "a run's stream ends with its result or raises"
        await self._hidden.keep(result, restored, request.principal)
        if not exchange.started:
            await exchange.start(200, _STREAM_HEADERS | self._told(request, seen, sent))
        waiting = deltas.waiting(result)
        rest = b"" if waiting is None else writer.add(waiting)
        await exchange.write(rest + writer.end(reply_of(result, wire=self._wire.name)), more=False)

    def _told(self, request: RunRequest, seen: int, sent: int) -> dict[str, str]:
        """What was done, for whoever looks."""
        told = {"x-toolcaddie-run": request.run_id or "", "x-toolcaddie-tools": f"{seen}->{sent}"}
        if request.client_tools and request.use_catalog:
            ours = self._runtime.source.snapshot()
            shadowed = [tool.name for tool in request.client_tools if ours.get(tool.name) is not None]
            if shadowed:
                told["x-toolcaddie-shadowed"] = ",".join(shadowed[:50])
        return told


_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


def _splicing(provider: Provider, wire: DoorWire) -> Forwarder | None:
    """Returns the provider if requests of this wire can go to it as they are."""
    return provider if isinstance(provider, Forwarder) and wire_of(provider) == wire.name else None


def _head(asked: DoorRequest, request: RunRequest) -> AnswerHead:
    return AnswerHead(id=request.run_id or "", created=int(time.time()), model=asked.model)


def _result_of(event: RunFinished | RunPaused) -> RunResult:
    if isinstance(event, RunFinished):
        return event.result
    return RunResult(run_id=event.run_id, status="pending", text=event.state.text, state=event.state)


def _sent(result: RunResult) -> int:
    return len(result.state.delivered) + len(result.state.meta)


def _name_by_client(exchange: Exchange, asked: DoorRequest, restored: Restored) -> str:
    """Returns the client's own name for the conversation, empty without one. A `prompt_cache_key` may serve a whole
    application, so that it names a conversation only together with how that began."""
    named = exchange.headers.get(b"x-toolcaddie-conversation")
    if named:
        return named.decode("latin-1")[:200]
    key = asked.params.get("prompt_cache_key")
    return f"{key[:200]} {restored.opening}" if isinstance(key, str) and key else ""
