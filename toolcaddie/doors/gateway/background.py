"""Background responses of the Responses API: a request with `background` is answered at once, and its run continues.

A job is such a run in this process. The stored response shows its status: `in_progress` until it is completed, failed or
cancelled. It has the lease of its process, a number that the process holds in the database as long as it lives, so any server
with the same database can tell that a process is gone, and marks its responses as failed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.core.errors import StorageError, ToolcaddieError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import Problem
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

Work = Callable[["Job"], Awaitable[None]]
"""Answers the request of a job."""


@dataclass(eq=False, slots=True, kw_only=True)
class Job:
    """A background response of this process. `stored`: its document in the database. `streams`: True if its answer is a
    stream."""

    stored: StoredResponse
    owner: Owner
    streams: bool
    events: list[bytes] = field(default_factory=list)
    """The events of the stream until now. The place of an event is its `sequence_number`."""
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by a new one, with every change."""
    task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return str(self.stored.response["id"])

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Takes a message of the answer in place of a client."""
        if self.streams and message["type"] == "http.response.body":
            self.add(message["body"])

    def add(self, data: bytes) -> None:
        self.events += [event + b"\n\n" for event in data.split(b"\n\n") if event]
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def follow(self, place: int = 0) -> AsyncIterator[bytes]:
        """Yields the events from a place on, as they come."""
        while True:
            changed, pieces = self.changed, self.events[place:]
            if pieces:
                place += len(pieces)
                yield b"".join(pieces)
            elif self.ended:
                return
            else:
                await changed.wait()


class BackgroundResponses:
    """Runs jobs, at most `most` for one owner and `total` in this process. `problem_for` converts an error to an error answer.
    `stopping` marks the beginning of a shutdown."""

    def __init__(
        self,
        stored: StoredResponses,
        documents: Store,
        *,
        most: int,
        total: int,
        problem_for: Callable[[ToolcaddieError], Problem],
        stopping: Callable[[], None],
    ) -> None:
        self._stored = stored
        self._documents = documents
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

    def _check_number(self, owner: Owner) -> None:
        running = Counter(key[1] for key in self._jobs)
        if running[owner] >= self._most:
            message = f"{running[owner]} background responses are under way (setting gateway.background_responses)"
        elif running.total() >= self._total:
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
        """Returns the stored response, failed if its process is gone."""
        if not stored.unfinished or (stored.response["id"], owner) in self._jobs or await self._is_alive(stored):
            return stored
        failed = replace(stored, response=_failed(stored.response, "server_error", GONE), lease=0)
        await self._stored.change(stored, failed, owner)
        return await self._stored.get(stored.response["id"], owner) or failed

    async def cancel(self, stored: StoredResponse, owner: Owner) -> StoredResponse:
        """Cancels an unfinished response, and returns what is stored then."""
        cancelled = replace(stored, response={**stored.response, "status": "cancelled"}, lease=0)
        if not await self._stored.change(stored, cancelled, owner):
            return await self._stored.get(stored.response["id"], owner) or cancelled
        self.stop(stored.response["id"], owner)
        return cancelled

    def stop(self, response_id: str, owner: Owner) -> None:
        """Cancels the job of a response whose document was changed, if it is in this process."""
        if (job := self.job(response_id, owner)) is not None and job.task is not None and not job.task.cancelling():
            job.task.cancel()

    async def close(self) -> None:
        """Ends all jobs as failed, at a shutdown."""
        jobs = list(self._jobs.values())
        if self._watch is not None:
            self._watch.cancel()
        if jobs:
            self._stopping()
        tasks = [job.task for job in jobs if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _is_alive(self, stored: StoredResponse) -> bool:
        return stored.lease != await self._documents.lease() and await self._documents.holds(stored.lease)

    async def _run(self, job: Job, work: Work) -> None:
        try:
            await work(job)
        except asyncio.CancelledError:
            await self._fail(job, "server_error", GONE)  # after a cancellation by the client there is nothing to change
        except ToolcaddieError as error:
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
        while self._jobs:
            await asyncio.sleep(_LOOK_SECONDS)
            jobs = dict(self._jobs)
            try:
                current = await self._stored.get_many(list(jobs))
            except StorageError as error:
                log.warning("background_responses_not_readable", error=str(error))
                continue
            for key in jobs:
                if key not in current or current[key].response.get("status") == "cancelled":
                    self.stop(*key)


def _failed(response: JsonObject, code: str, message: str) -> JsonObject:
    return {**response, "status": "failed", "error": {"code": code, "message": message}}
