"""Evaluations that go on in the background, with the progress in the store, so that every process shows it.

Where there is a durable queue, an evaluation is handed to it: any server measures it, one at a time, and if the server dies,
another one begins it again. Otherwise the process that was asked measures it, and it ends with that process.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from toolcaddie.app.evaluating import followed
from toolcaddie.app.evaluation_values import UNFINISHED, Evaluation
from toolcaddie.app.measurements import measurement_of, stored_form
from toolcaddie.app.measuring_process import Measurement
from toolcaddie.app.queues import QueueOnDemand
from toolcaddie.app.settings import JobSettings, Settings
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.jobs.queue import WorkKind
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger

log = Logger(__name__)

KIND = "evaluation"
"""The kind of this work in the queue."""

_KIND = "console-evaluation"
"""Kind of the documents; the key is the tenant and the id. Ids are ordered from the newest to the oldest."""
_CANCEL = "console-evaluation-end"
"""Kind of the documents that ask whichever process runs an evaluation to end it."""
_TTL_SECONDS = 30 * 86_400.0
_CANCEL_SECONDS = 3_600.0
_SILENT = 60.0
"""Seconds without a beat after which nobody runs an evaluation any more."""
_MEASUREMENT = "console-evaluation-measurement"
"""Kind of the documents with what is measured; the key is that of the evaluation."""
_LAST_MOMENT = 1 << 44
_ASKED_TO_END = b"1"


class Evaluations:
    """The evaluations of all tenants. `queue`: the durable queue; None, or one that does not know this kind of work: this process
    measures. `clock`: seconds since the epoch."""

    def __init__(
        self, store: Store, queue: QueueOnDemand | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._queue = queue if queue is not None and queue.knows(KIND) else None
        self._clock = clock
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None

    async def begin(self, measurement: Measurement, *, by: str, tenant: str) -> Evaluation:
        """Begins an evaluation, and returns it at once. Raises `QueueFullError` if too many of the tenant wait; without a queue,
        `RequestError` while this process runs another one."""
        now = self._clock()
        evaluation = Evaluation(
            id=f"{_LAST_MOMENT - int(now * 1000):011x}{secrets.token_hex(4)}",
            tenant=tenant,
            by=by,
            source="trail" if measurement.requests is None else "list",
            configurations=tuple(each.name for each in measurement.configurations),
            began=now,
            beat=now,
        )
        if self._queue is not None:
            return await self._hand_in(replace(evaluation, status="queued"), measurement, self._queue)
        if self._is_busy:
            raise RequestError(
                "an evaluation is running, and there is one at a time; wait for its end, or cancel it",
                code="evaluation_is_running",
            )
        self._is_busy = True
        try:
            await self._write(evaluation)
        except BaseException:
            self._is_busy = False
            raise
        self._task = asyncio.create_task(self._run_here(evaluation, measurement))
        return evaluation

    async def _hand_in(self, evaluation: Evaluation, measurement: Measurement, queue: QueueOnDemand) -> Evaluation:
        key = _key(evaluation)
        await self._store.put(_MEASUREMENT, key, stored_form(measurement), ttl=_TTL_SECONDS)
        await self._write(evaluation)
        try:
            await queue.put(KIND, _work_id(evaluation), key.encode(), tenant=evaluation.tenant)
        except BaseException:
            await self._store.delete(_KIND, key)
            await self._store.delete(_MEASUREMENT, key)
            raise
        return evaluation

    async def _run_here(self, evaluation: Evaluation, measurement: Measurement) -> None:
        try:
            await self.run(evaluation, measurement)
        finally:
            self._is_busy = False

    async def run(self, evaluation: Evaluation, measurement: Measurement) -> None:
        """Measures, and writes the progress and the end."""
        try:
            evaluation = await followed(
                replace(evaluation, status="running"),
                measurement,
                write=self._write,
                is_cancelled=lambda: self._is_cancelled(evaluation),
                clock=self._clock,
            )
        except asyncio.CancelledError:
            raise
        except Exception:  # the outermost frame of a task: an unforeseen error is logged and shown
            log.exception("evaluation_failed", evaluation=evaluation.id)
            evaluation = replace(evaluation, status="failed", error="The server's log says why.")
        await self._write(replace(evaluation, ended=self._clock(), beat=self._clock()))

    async def run_stored(self, key: str, base: Settings) -> None:
        """Measures what was handed in, unless that was done or cancelled. `base`: the settings of this server."""
        document, stored = await self._store.get(_KIND, key), await self._store.get(_MEASUREMENT, key)
        if document is None or stored is None:
            return
        evaluation = msgspec.json.decode(document, type=Evaluation)
        if evaluation.status in UNFINISHED:
            await self.run(evaluation, measurement_of(stored, base))
        await self._store.delete(_MEASUREMENT, key)

    async def _is_cancelled(self, evaluation: Evaluation) -> bool:
        return await self._store.get(_CANCEL, evaluation.id) is not None

    async def cancel(self, tenant: str, evaluation_id: str) -> None:
        """Asks the process that runs an evaluation to end it. Raises `RequestError` if there is none, or if it has ended."""
        evaluation = await self.get(tenant, evaluation_id)
        if evaluation.status not in UNFINISHED:
            raise RequestError("the evaluation has ended already", code="decided")
        await self._store.put(_CANCEL, evaluation.id, _ASKED_TO_END, ttl=_CANCEL_SECONDS)
        if evaluation.status == "queued" and self._queue is not None:
            await self._queue.cancel(_work_id(evaluation))
            await self._store.delete(_MEASUREMENT, _key(evaluation))
            await self._write(replace(evaluation, status="cancelled", ended=self._clock(), beat=self._clock()))

    async def get(self, tenant: str, evaluation_id: str) -> Evaluation:
        """Returns an evaluation. Raises `RequestError` if there is none."""
        document = await self._store.get(_KIND, f"{tenant}\0{evaluation_id[:64]}")
        if document is None:
            raise RequestError(f"there is no evaluation {evaluation_id[:64]!r}", code="unknown_evaluation")
        return self._decoded(document)

    async def page(
        self, tenant: str, *, cursor: str | None = None, limit: int
    ) -> tuple[Sequence[Evaluation], str | None]:
        """Returns evaluations, the newest first, and the cursor of the next page; None: there is none."""
        page = await self._store.scan(_KIND, prefix=f"{tenant}\0", cursor=cursor, limit=limit)
        return [self._decoded(each.value) for each in page.documents], page.cursor

    async def _write(self, evaluation: Evaluation) -> None:
        await self._store.put(_KIND, _key(evaluation), msgspec.json.encode(evaluation), ttl=_TTL_SECONDS)

    def _decoded(self, document: bytes) -> Evaluation:
        try:
            evaluation = msgspec.json.decode(document, type=Evaluation)
        except msgspec.MsgspecError as error:
            raise StorageError(f"an evaluation cannot be read: {error}") from error
        is_lost = evaluation.status == "running" and self._clock() > evaluation.beat + _SILENT
        return replace(evaluation, status="lost") if is_lost else evaluation


def evaluation_kind(evaluations: Evaluations, base: Settings) -> WorkKind:
    """Returns the work of a server that measures evaluations, one at a time. `base`: the settings of the server."""

    async def do(payload: bytes) -> bytes:
        await evaluations.run_stored(payload.decode(), base)
        return b""

    return _kind(do, base.jobs)


def handed_in_kind(jobs: JobSettings) -> WorkKind:
    """Returns the work of a process that hands evaluations in, and leaves them to servers."""
    return _kind(None, jobs)


def _kind(do: Callable[[bytes], Awaitable[bytes]] | None, jobs: JobSettings) -> WorkKind:
    return WorkKind(do=do, at_once=1, tenant_at_once=jobs.tenant_at_once, tenant_waiting=jobs.tenant_waiting)


def _key(evaluation: Evaluation) -> str:
    return f"{evaluation.tenant}\0{evaluation.id}"


def _work_id(evaluation: Evaluation) -> str:
    return f"evaluation_{evaluation.id}"
