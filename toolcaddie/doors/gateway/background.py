"""Background responses of the Responses API: a request with `background` is answered at once, and its run continues.

A job is such a run in this process. The stored response shows its status: `in_progress` until it is completed, failed or
cancelled. Where requests can be deferred (`deferring`), the request is, and the job runs in whatever process gets it; if that
dies, in another one. Otherwise the job runs in the process that was asked. Then the stored response has the lease of the process,
a number that it holds in the database as long as it lives, so any server with the same database can tell that the process is
gone, and marks its responses as failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from toolcaddie.core.errors import ShutdownError, StorageError, ToolcaddieError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.deferred import Deferred
from toolcaddie.doors.gateway.deferring import Deferring
from toolcaddie.doors.gateway.jobs import Job
from toolcaddie.doors.gateway.problems import RefusedError, problem
from toolcaddie.doors.gateway.stored import Owner, StoredResponse, StoredResponses
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.wires.bodies import ENCODER

log = Logger(__name__)

_LOOK_SECONDS = 1.0
"""Seconds between two looks at the stored responses of this process: another process may have cancelled or deleted them."""
_RETRY_SECONDS = "5"
"""Seconds after which a client that has too many jobs may try again."""
_MOST_EVENT_BYTES = 4 * 1024 * 1024
"""The largest stream that is kept as it was sent. Of a larger one, the whole response is streamed to those who ask later."""
GONE = (
    "the server stopped before this response was complete; tools may have run, so look at its run before you repeat it"
)
"""The error of a response whose process is gone."""

Work = Callable[[Job], Awaitable[None]]
"""Answers the request of a job."""


class BackgroundResponses:
    """Runs jobs, at most `most` for one owner and, of those that cannot be deferred, `total` in this process. `problem_for`
    converts an error to an error answer. `stopping` marks the beginning of a shutdown."""

    def __init__(
        self,
        stored: StoredResponses,
        documents: Store,
        deferring: Deferring,
        *,
        most: int,
        total: int,
        problem_for: Callable[[ToolcaddieError], Problem],
        stopping: Callable[[], None],
    ) -> None:
        self._stored = stored
        self._documents = documents
        self._deferring = deferring
        self._most = most
        self._total = total
        self._problem_for = problem_for
        self._stopping = stopping
        self._jobs: dict[tuple[str, Owner], Job] = {}
        self._watch: asyncio.Task[None] | None = None

    def job(self, response_id: str, owner: Owner) -> Job | None:
        return self._jobs.get((response_id, owner))

    async def begin(self, work: Work, stored: StoredResponse, owner: Owner, *, streams: bool) -> Job:
        """Stores the unfinished response and starts its job. Raises `RefusedError` if too many are under way."""
        self._check_number(owner)
        job = Job(stored=stored, owner=owner, streams=streams)
        self._jobs[job.id, owner] = job
        try:
            job.stored = replace(stored, lease=await self._documents.lease())
            await self._stored.put(job.stored, owner)
        except BaseException:
            del self._jobs[job.id, owner]
            raise
        job.task = asyncio.create_task(self._run(job, work))
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        return job

    async def defer(self, request: Deferred, stored: StoredResponse, hand_in: Callable[[], Awaitable[None]]) -> None:
        """Stores the unfinished response, and hands its request in. Raises `RefusedError` or `QueueFullError` if too many are
        under way."""
        self._check_number(request.owner, waits=True)
        response = {**stored.response, "status": "queued"}
        await self._stored.put(replace(stored, response=response, deferred=request.id), request.owner)
        try:
            await hand_in()
        except BaseException:
            await self._stored.delete(response["id"], request.owner)
            raise

    async def carry_out(self, response_id: str, owner: Owner, work: Work, *, streams: bool) -> None:
        """Runs the job of a deferred request in this process. A response that has ended, or was deleted, is left alone."""
        stored = await self._stored.get(response_id, owner)
        if stored is None or not stored.unfinished:
            return
        response = {**stored.response, "status": "in_progress"}
        begun = replace(stored, response=response, lease=await self._documents.lease())
        if not await self._stored.change(stored, begun, owner):
            return
        job = Job(stored=begun, owner=owner, streams=streams, deferred=True, task=asyncio.current_task())
        self._jobs[job.id, owner] = job
        sharing = asyncio.create_task(job.share(self._stored)) if streams else None
        try:
            await self._run(job, work)
        finally:
            if sharing is not None:
                sharing.cancel()

    def _check_number(self, owner: Owner, *, waits: bool = False) -> None:
        """Raises `RefusedError` if too many are under way. `waits`: beyond the limit of this process, the job would wait."""
        running = Counter(key[1] for key in self._jobs)
        if running[owner] >= self._most:
            message = f"{running[owner]} background responses are under way (setting gateway.background_responses)"
        elif running.total() >= self._total and not waits:
            message = f"{running.total()} background responses are under way (setting gateway.background_total)"
        else:
            return
        headers = {"retry-after": _RETRY_SECONDS}
        code = "too_many_background_responses"
        raise RefusedError(problem(429, message, kind="rate_limit_error", code=code, headers=headers))

    async def finish(self, job: Job, response: JsonObject) -> None:
        """Stores the end of a response, unless it was cancelled or deleted meanwhile."""
        after = replace(job.stored, response=response, lease=0)
        if not await self._stored.change(job.stored, after, job.owner):
            raise asyncio.CancelledError
        job.stored = after

    async def current(self, stored: StoredResponse, owner: Owner) -> StoredResponse:
        """Returns the stored response, failed if nobody makes it any more."""
        if not stored.unfinished or (stored.response["id"], owner) in self._jobs or await self._is_alive(stored, owner):
            return stored
        failed = replace(stored, response=_failed(stored.response, "server_error", GONE), lease=0)
        await self._stored.change(stored, failed, owner)
        return await self._stored.get(stored.response["id"], owner) or failed

    async def cancel(self, stored: StoredResponse, owner: Owner) -> StoredResponse:
        """Cancels an unfinished response, and returns what is stored then."""
        cancelled = replace(stored, response={**stored.response, "status": "cancelled"}, lease=0)
        if not await self._stored.change(stored, cancelled, owner):
            return await self._stored.get(stored.response["id"], owner) or cancelled
        await self.stop(stored, owner)
        return cancelled

    async def stop(self, stored: StoredResponse, owner: Owner) -> None:
        """Stops the job of a response whose document was changed or deleted, in whatever process it is. A job that is not
        deferred is stopped by its own process."""
        if stored.deferred:
            await self._deferring.cancel(stored.deferred, owner)
        else:
            self._stop(stored.response["id"], owner)

    def _stop(self, response_id: str, owner: Owner) -> None:
        """Cancels a job, if it is in this process."""
        if (job := self.job(response_id, owner)) is not None and job.task is not None and not job.task.cancelling():
            job.task.cancel()

    async def close(self) -> None:
        """Ends all jobs as failed, at a shutdown, except those that another process continues."""
        if self._watch is not None:
            self._watch.cancel()
        if self._jobs:
            self._stopping()
        jobs = [job for job in self._jobs.values() if not job.deferred]
        tasks = [job.task for job in jobs if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _is_alive(self, stored: StoredResponse, owner: Owner) -> bool:
        if stored.deferred:
            return await self._deferring.get(stored.deferred, owner) is not None
        return stored.lease != await self._documents.lease() and await self._documents.holds(stored.lease)

    async def _run(self, job: Job, work: Work) -> None:
        try:
            await work(job)
        except asyncio.CancelledError:
            job.handed_over = job.deferred and _is_cancelled()
            if job.handed_over:
                raise
            await self._fail(job, "server_error", GONE)  # after a cancellation by the client there is nothing to change
        except ToolcaddieError as error:
            job.handed_over = job.deferred and isinstance(error, ShutdownError) and _is_cancelled()
            if job.handed_over:
                raise
            refusal = self._problem_for(error)
            await self._fail(job, refusal.code or refusal.kind, refusal.message)
        except Exception:  # the outermost frame of a job: an unforeseen error is logged and stored
            log.exception("background_response_failed", response=job.id)
            await self._fail(job, "server_error", "the gateway failed on this request; its log says why")
        finally:
            await self._keep_events(job)
            self._jobs.pop((job.id, job.owner), None)
            job.end()

    async def _fail(self, job: Job, code: str, message: str) -> None:
        failed = replace(job.stored, response=_failed(job.stored.response, code, message), lease=0)
        try:
            changed = job.stored.unfinished and await self._stored.change(job.stored, failed, job.owner)
            current = failed if changed else await self._stored.get(job.id, job.owner)
        except StorageError as error:
            log.warning("background_response_not_stored", response=job.id, error=str(error))
            return
        if job.streams and current is not None:
            event = {"type": "response.failed", "response": current.response, "sequence_number": len(job.events)}
            job.add(b"event: response.failed\ndata: " + ENCODER.encode(event) + b"\n\n")

    async def _keep_events(self, job: Job) -> None:
        events = b"".join(job.events)
        if not events or len(events) > _MOST_EVENT_BYTES:
            return
        try:
            if await self._stored.get(job.id, job.owner) is not None:
                await self._stored.put_events(job.id, job.owner, events)
        except StorageError as error:
            log.warning("background_events_not_stored", response=job.id, error=str(error))

    async def _look(self) -> None:
        """Cancels the jobs whose responses another process has cancelled or deleted."""
        while jobs := {key: job for key, job in self._jobs.items() if not job.deferred}:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                current = await self._stored.get_many(list(jobs))
            except StorageError as error:
                log.warning("background_responses_not_readable", error=str(error))
                continue
            for key in jobs:
                if key not in current or current[key].response.get("status") == "cancelled":
                    self._stop(*key)


def _is_cancelled() -> bool:
    """Returns True if the present task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(response: JsonObject, code: str, message: str) -> JsonObject:
    return {**response, "status": "failed", "error": {"code": code, "message": message}}
