"""Defers requests: stores them, hands them to the durable queue, and answers those that the queue gives to this process.

A request is stored before its client learns that it was accepted. Whichever process answers it stores the answer; if that
process dies, the queue gives the request to another one, which continues the run after the step that was stored last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Protocol

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ShutdownError, StorageError, ToolcaddieError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.deferred import Deferred, DeferredAnswer, DeferredRequests, key_of
from toolcaddie.doors.gateway.exchange import Send
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.stored import Owner
from toolcaddie.jobs.queue import WorkKind
from toolcaddie.ports import WorkQueue
from toolcaddie.ports.wires import DoorWire
from toolcaddie.runtime.durable_runs import DurableRuns
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

KIND = "request"
"""The kind of this work in the queue."""
_TRIES = 10
"""Attempts to store an answer while the database fails."""
_PAUSE_SECONDS = 2.0
_MOST_ATTEMPTS = 15
"""Number of times that a request is begun, after crashes, until it is given up: it may be what crashes. The queue gives it up
later."""


class ServerQueue(WorkQueue, Protocol):
    """The queue of durable work of a server."""

    @property
    def is_available(self) -> bool:
        """True if this installation and its database can do durable work."""
        ...

    def add(self, kinds: Mapping[str, WorkKind]) -> None:
        """Does this work too. Must be called before the queue is used."""
        ...


class Carrier(Protocol):
    """The handler of a door, which answers deferred requests."""

    @property
    def wire(self) -> DoorWire: ...

    async def carry_out(self, request: Deferred, send: Send) -> None:
        """Answers a request, or what is left of it. `send` takes the messages of the answer, and a new answer if it fails and
        begins again."""
        ...


class Deferring:
    """Defers requests. `queue` None: this server has none, and defers nothing. `at_once`: the largest number of requests that
    this process answers at the same time; `tenant_at_once` and `tenant_waiting` are limits of each tenant, as in `WorkKind`."""

    def __init__(
        self,
        requests: DeferredRequests,
        runs: DurableRuns,
        queue: ServerQueue | None,
        *,
        bounds: Bounds,
        problem_for: Callable[[Exception], Problem],
        at_once: int,
        tenant_at_once: int,
        tenant_waiting: int,
    ) -> None:
        self.runs = runs
        self._requests = requests
        self._queue = queue if queue is not None and queue.is_available and at_once > 0 else None
        self._bounds = bounds
        self._problem_for = problem_for
        self._carriers: Mapping[str, Carrier] = {}
        if self._queue is not None:
            kind = WorkKind(do=self._do, at_once=at_once, tenant_at_once=tenant_at_once, tenant_waiting=tenant_waiting)
            self._queue.add({KIND: kind})

    @property
    def is_durable(self) -> bool:
        """True if this server can defer requests."""
        return self._queue is not None

    def bind(self, carriers: Mapping[str, Carrier]) -> None:
        """Answers the requests of each path with its handler."""
        self._carriers = carriers

    async def accept(self, request: Deferred) -> None:
        """Stores a request and hands it to the queue. Raises `QueueFullError` if too much of its tenant waits."""
        assert self._queue is not None, "`is_durable` says so"
        await self._requests.put(request)
        key = key_of(request.id, request.owner)
        try:
            await self._queue.put(KIND, request.id, key.encode(), tenant=request.principal.tenant)
        except BaseException:
            await self._requests.delete(request)
            raise

    async def get(self, request_id: str, owner: Owner) -> Deferred | None:
        return await self._requests.get(request_id, owner)

    async def cancel(self, request_id: str, owner: Owner) -> bool:
        """Stops a request and deletes it with its answer. Returns False if there is none."""
        request = await self._requests.get(request_id, owner)
        if request is None:
            return False
        await self._requests.delete(request)
        if request.answer is None and self._queue is not None:
            await self._queue.cancel(request.id)
            await self.runs.forget(request.id)
        return True

    async def _do(self, payload: bytes) -> bytes:
        """Answers a request for the queue, which needs no result. While the database fails, it is tried again: what was done is
        stored, and is not done twice."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._done(payload.decode())
            except StorageError as error:
                log.warning("deferred_request_interrupted", attempt=attempt, error=str(error))
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    async def _done(self, key: str) -> bytes:
        stored = await self._requests.at(key)
        if stored is None or stored.answer is not None:
            return b""  # it was cancelled, or answered by a process that died before the queue knew
        request = replace(stored, attempts=stored.attempts + 1)
        if not await self._requests.change(stored, request):
            return b""
        try:
            answer = await self._answer(request)
        except asyncio.CancelledError:
            if await self._requests.get(request.id, request.owner) is None:
                await self.runs.forget(request.id)  # it was stored once more after `cancel` has deleted it
            raise
        if request.background:
            await self._requests.delete(request)
        else:
            await self._requests.end(request, answer)
        await self.runs.forget(request.id)
        return b""

    async def _answer(self, request: Deferred) -> DeferredAnswer:
        """Returns the answer of a request, which may be an error."""
        carrier, recorder = self._carriers[request.path], _Recorder()
        try:
            if request.attempts > _MOST_ATTEMPTS:
                message = f"{_MOST_ATTEMPTS} attempts ended with their process, so this request is given up"
                await self._refuse(request, carrier, recorder, problem(500, message, kind="server_error"))
            else:
                await carrier.carry_out(request, recorder.send)
        except Exception as error:  # the outermost frame of a request: an unforeseen error is logged and is its answer
            task = asyncio.current_task()
            if isinstance(error, ShutdownError) and task is not None and task.cancelling():
                raise asyncio.CancelledError from error  # another process continues it
            if not isinstance(error, ToolcaddieError):
                log.exception("deferred_request_failed", request=request.id)
            await self._refuse(request, carrier, recorder, self._problem_for(error))
        return recorder.answer

    async def _refuse(self, request: Deferred, carrier: Carrier, recorder: _Recorder, refusal: Problem) -> None:
        exchange = request.exchange(recorder.send, wire=carrier.wire, bounds=self._bounds, context={})
        await exchange.refuse(refusal)


class _Recorder:
    """Records an answer. One that begins again replaces the earlier one."""

    def __init__(self) -> None:
        self.status = 500
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._content = bytearray()

    @property
    def answer(self) -> DeferredAnswer:
        return DeferredAnswer(status=self.status, headers=self._headers, content=bytes(self._content))

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self._headers = message["status"], tuple(message["headers"])
            self._content.clear()
        else:
            self._content += message["body"]
