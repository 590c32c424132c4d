"""Handles requests to a model that need not be answered at once: with `Prefer: respond-async` they are deferred.

A run that another process has begun goes on after the step that was stored last, so no call is made twice that must not be. A
request that is forwarded byte for byte runs no tools, and is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from toolcaddie.core.bounds import LARGE
from toolcaddie.core.errors import MarksActed
from toolcaddie.core.run import RunRequest
from toolcaddie.core.wire import DoorRequest, Envelope
from toolcaddie.doors.gateway.deferred import Charge, Deferred, deferred_of, prefers_async
from toolcaddie.doors.gateway.deferred_pages import answer_accepted
from toolcaddie.doors.gateway.deferring import Deferring
from toolcaddie.doors.gateway.exchange import Exchange, Send
from toolcaddie.doors.gateway.handler import ANSWER_ID, ModelHandler
from toolcaddie.doors.gateway.hidden import Restored
from toolcaddie.doors.gateway.idempotency import Run
from toolcaddie.doors.gateway.limiting import ACCOUNT, Account, charged
from toolcaddie.doors.gateway.serving import Admitted, Serving
from toolcaddie.doors.gateway.stored import owner_of
from toolcaddie.doors.gateway.tool_lists import ClientTools
from toolcaddie.guards.aside import aside
from toolcaddie.ports.wires import DoorWire
from toolcaddie.util.replacing import replace

Step = Callable[[Exchange, RunRequest, Restored, MarksActed], Awaitable[None]]
"""Answers with a run that begins, or goes on."""


class DeferringHandler(ModelHandler):
    """Answers the requests of one door, some of them later."""

    def __init__(self, wire: DoorWire, serving: Serving, deferring: Deferring) -> None:
        super().__init__(wire, serving)
        self._deferring = deferring

    @property
    def wire(self) -> DoorWire:
        return self._wire

    # --- accepting ---------------------------------------------------------------------------------------------------

    def _scheduled(self, run: Run | None, exchange: Exchange, admitted: Admitted) -> Run | None:
        if not prefers_async(exchange.headers) or not self._may_defer(exchange, admitted):
            return run
        return partial(self._accept, admitted=admitted)

    def _may_defer(self, exchange: Exchange, admitted: Admitted) -> bool:
        """Returns True if the request can be answered by any process, which has only what is stored: not the client's own key."""
        if not self._spends or not self._deferring.is_durable:
            return False
        return self._onward.key_header not in self._headers(exchange, keyed=admitted.caller.keyed, once=False)

    def _deferred(
        self, exchange: Exchange, admitted: Admitted, request_id: str, *, background: bool = False
    ) -> Deferred:
        account: Account | None = exchange.context.get(ACCOUNT)
        charge = None
        if account is not None:
            spending = account.spending
            charge = Charge(model=spending.model, given=spending.given, reservation=account.reservation)
        return deferred_of(
            exchange,
            request_id=request_id,
            owner=owner_of(exchange, admitted.principal),
            body=admitted.body,
            caller=admitted.caller,
            charge=charge,
            background=background,
        )

    async def _hand_in(self, exchange: Exchange, request: Deferred) -> None:
        """Hands a request to the queue. From then on, whoever answers it counts what it uses."""
        await self._deferring.accept(request)
        account: Account | None = exchange.context.get(ACCOUNT)
        if account is not None:
            account.detached = True

    async def _accept(self, exchange: Exchange, *, run_id: str, lease: int | None = None, admitted: Admitted) -> None:
        request = self._deferred(exchange, admitted, run_id)
        await self._hand_in(exchange, request)
        exchange.note("preference-applied", "respond-async")
        exchange.note("x-toolcaddie-run", run_id)
        await answer_accepted(exchange, request)

    # --- answering ---------------------------------------------------------------------------------------------------

    async def carry_out(self, request: Deferred, send: Send) -> None:
        """Answers a deferred request, whichever process has accepted it."""
        await self._carry_out(request, send, {})

    async def _carry_out(self, request: Deferred, send: Send, context: Mapping[str, Any]) -> None:
        """Answers a deferred request. `context`: more values for `Exchange.context`."""
        account = None
        if request.charge is not None and request.key is not None:
            charge = request.charge
            account = self._limiter.restored(
                request.key.id, model=charge.model, given=charge.given, reservation=charge.reservation
            )
            context = {**context, ACCOUNT: account}
        try:
            await self._answer_deferred(request, send, context)
        except asyncio.CancelledError:
            account = None  # another process continues it, and counts it
            raise
        finally:
            if account is not None:
                account.settle()

    async def _answer_deferred(self, request: Deferred, send: Send, context: Mapping[str, Any]) -> None:
        def exchanged() -> Exchange:
            more = {**context, ANSWER_ID: request.id}
            return request.exchange(send, wire=self._wire, bounds=self._bounds, context=more)

        exchange, principal = exchanged(), self._runtime.identified(request.caller.principal)
        large = len(request.body) >= LARGE
        open_envelope = partial(self._wire.open, request.body, self._bounds)
        envelope = await aside(open_envelope) if large else open_envelope()
        async with self._catalog(exchange, envelope, principal):
            await self._answer_opened(request, envelope, exchanged)

    async def _answer_opened(self, request: Deferred, envelope: Envelope, exchanged: Callable[[], Exchange]) -> None:
        exchange, caller = exchanged(), request.caller
        principal, large = self._runtime.identified(caller.principal), len(request.body) >= LARGE
        if (forwarder := self._forwarder_for(exchange, envelope, caller, principal)) is not None:
            self._forward_counter.inc()
            headers = self._headers(exchange, keyed=caller.keyed, once=True)
            await self._forward(forwarder, exchange, request.body, headers, envelope)
            return
        read_request = partial(self._read, envelope)
        door_request, tools = await aside(read_request) if large else read_request()
        prepare = partial(self._prepared, request, door_request, tools, envelope)

        async def run(step: Step, run_id: str) -> None:
            exchange = exchanged()
            run_request, restored = await prepare(exchange, run_id=run_id)
            with charged(exchange), MarksActed() as marks:
                await step(exchange, run_request, restored, marks)

        async def begin(exchange: Exchange, run: RunRequest, restored: Restored, marks: MarksActed) -> None:
            answer = self._answer_stream if door_request.stream else self._answer_whole
            await answer(exchange, door_request, run, restored, marks, envelope)

        async def resume(exchange: Exchange, run: RunRequest, restored: Restored, marks: MarksActed) -> None:
            result = await self._runtime.resume(run.run_id or "", principal=principal)
            await self._send_result(exchange, door_request, run, restored, result, marks, envelope)

        async def waiting(exchange: Exchange, run: RunRequest, restored: Restored, marks: MarksActed) -> None:
            result = await self._runtime.waiting(run.run_id or "")
            await self._send_result(exchange, door_request, run, restored, result, marks, envelope)

        await self._deferring.runs.answer(
            request.id, begin=partial(run, begin), resume=partial(run, resume), waiting=partial(run, waiting)
        )

    async def _prepared(
        self,
        request: Deferred,
        door_request: DoorRequest,
        tools: ClientTools,
        envelope: Envelope,
        exchange: Exchange,
        *,
        run_id: str,
    ) -> tuple[RunRequest, Restored]:
        principal = self._runtime.identified(request.principal)
        run_request, restored = await self._run_requests.of(
            exchange,
            door_request,
            tools,
            principal,
            use_catalog=self._joins_catalog(exchange, envelope, principal),
            headers=self._headers(exchange, keyed=request.caller.keyed, once=False),
            run_id=run_id,
            lease=None,
        )
        return replace(run_request, durable=True), restored
