"""Begins the slots of jobs when they are due, and records their outcomes. Any number of processes may do so at the same time.

    queue = DurableQueue(database_url, database.store, {WORK: WorkKind(do=lambda payload: scheduler.work(payload))})
    scheduler = Scheduler(database.jobs, database.store, queue, run_job)
    async with queue, scheduler:
        ...

One slot goes this way: it is *claimed* (its row is added, and the job's next slot moved, in one transaction, which succeeds in
one process), *put* into the durable queue under an id made of job and slot, *begun* by some process, and *ended* there. If a
process dies at any point, its slots are adopted by a living one, which puts them again; what is in the queue already is not put
twice. A job has one slot in progress; what becomes due meanwhile, or passed while no process ran, is decided by `catch_up`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
from cronsim import CronSimError

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.jobs import Job, JobOutcome, Slot, milliseconds
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.desk import SCHEDULERS
from toolcaddie.jobs.schedule import back_off
from toolcaddie.ports import Store
from toolcaddie.ports.jobs import Claim, JobStore, SlotQueue
from toolcaddie.util.log import Logger
from toolcaddie.util.waiting import wait_up_to

log = Logger(__name__)

WORK = "slots"
"""The kind of work of slots."""
EARLIER_WORK = "jobs"
"""The kind under which earlier versions put slots, before tenants took turns. They may still wait there."""

RunJob = Callable[[Job, Slot], Awaitable[JobOutcome]]
"""Sends the message of a job, or lets its bot follow its instruction. After a crash it is called again with the same slot, so
what it does must have `slot.work_id` as its key. An exception is a failure."""

_LOOK_SECONDS = 1.0
"""Longest time between two looks for jobs that other processes changed."""
_AT_ONCE = 100
"""Number of slots in one transaction, which other writers wait for."""
_CLEAN_SECONDS = 60.0
_KEEP_SECONDS = 7 * 86_400.0
_LAST = CatchUpRule()
_NOBODY = Principal()
_GIVEN_UP = "its work was given up after too many crashes, or cancelled"


class Scheduler:
    """`clock` returns seconds since the epoch."""

    def __init__(
        self,
        rows: JobStore,
        store: Store,
        queue: SlotQueue,
        run_job: RunJob,
        *,
        catch_up: CatchUpRule = _LAST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rows = rows
        self._store = store
        self._queue = queue
        self._run_job = run_job
        self._catch_up = catch_up
        self._clock = clock
        self._woken = asyncio.Event()
        self._unput: dict[str, list[Slot]] = {}
        """Claimed slots that are not in the queue yet, by tenant."""
        self._registered: int | None = None
        self._cleaned = 0.0
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Looks for due slots at once, because a job was added or changed."""
        self._woken.set()

    async def open(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._registered is not None:
            await self._store.delete(SCHEDULERS, str(self._registered))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- beginning -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            wait = _LOOK_SECONDS
            try:
                wait = await self.step()
            except Exception as error:  # noqa: BLE001  the outermost frame of the task, which must outlive any failure
                log.warning("jobs_not_begun", error=f"{type(error).__name__}: {error}")
            await wait_up_to(wait, self._woken)

    async def step(self) -> float:
        """Begins everything that is due. Returns the seconds until the next step."""
        lease = await self._store.lease()
        await self._register(lease)
        await self._put((), {})
        while orphans := await self._rows.adopt(lease=lease, most=_AT_ONCE):
            jobs = await asyncio.gather(*(self._rows.get(each) for each in {slot.job for slot in orphans}))
            await self._put(orphans, _tenants([job for job in jobs if job is not None]))
        while due := await self._rows.due(self._clock(), most=_AT_ONCE):
            claims = [claim for job in due if (claim := await self._claim(job)) is not None]
            slots = await self._rows.claim([claim for claim in claims if claim.slot >= 0], lease=lease)
            await self._put(slots, _tenants(due))
            await self._leave_out([claim for claim in claims if claim.slot < 0])
            if len(due) < _AT_ONCE:
                break
        await self._clean()
        earliest = await self._rows.earliest()
        return _LOOK_SECONDS if earliest is None else min(_LOOK_SECONDS, max(0.0, earliest - self._clock()))

    async def _claim(self, job: Job) -> Claim | None:
        """Returns the wish to begin a slot. None: the schedule cannot be computed, such as in a zone that this machine does not
        know; the job is disabled, because it would stop all others."""
        try:
            slot, following, left_out = self._catch_up.claim(job, self._clock())
        except (ToolcaddieError, ValueError, OverflowError, CronSimError) as error:
            note = f"its next slot cannot be computed, so it is disabled: {error}; make a new job, and remove this one"
            log.error("job_disabled", job=job.id, bot=job.owner.bot, reason=note)
            await self._rows.disable(job.id, note=note)
            return None
        if left_out:
            log.warning("job_slots_left_out", job=job.id, count=left_out, catch_up=self._catch_up.policy)
        return Claim(job=job, slot=-1.0 if slot is None else slot, next=following)

    async def _leave_out(self, claims: Sequence[Claim]) -> None:
        """Moves jobs on whose missed slots do not run. One that would have run once is over."""
        for claim in claims:
            await self._rows.switch(claim.job.id, enabled=claim.next is not None, next_slot=claim.next)

    async def _put(self, slots: Sequence[Slot], tenants: Mapping[str, str]) -> None:
        """Puts slots into the queue. `tenants`: of their jobs, by id; a job that is missing was removed, and its slot ends."""
        for slot in slots:
            self._unput.setdefault(tenants.get(slot.job, _NOBODY.tenant), []).append(slot)
        while self._unput:
            tenant, of_tenant = next(iter(self._unput.items()))
            work = [(slot.work_id, _payload(slot)) for slot in of_tenant]
            await self._queue.put_many(WORK, work, tenant=tenant)
            del self._unput[tenant]

    async def _register(self, lease: int) -> None:
        """Writes down that this process runs jobs."""
        if self._registered != lease:
            await self._store.put(SCHEDULERS, str(lease), b"")
            self._registered = lease

    async def _clean(self) -> None:
        """Ends slots whose work was given up, and removes old slots and the marks of dead processes."""
        now = self._clock()
        if now - self._cleaned < _CLEAN_SECONDS:
            return
        self._cleaned = now
        stuck = {slot.work_id: slot for slot in await self._rows.unfinished(before=now - _CLEAN_SECONDS)}
        over = set(await self._queue.given_up(list(stuck)))
        if over:
            # What ended a moment ago is not among them any more.
            open_slots = {slot.work_id: slot for slot in await self._rows.unfinished(before=now - _CLEAN_SECONDS)}
            await self._rows.fail([open_slots[each] for each in over & open_slots.keys()], note=_GIVEN_UP, now=now)
        await self._rows.forget(before=now - _KEEP_SECONDS)
        for document in (await self._store.scan(SCHEDULERS)).documents:
            if not await self._store.holds(int(document.key)):
                await self._store.delete(SCHEDULERS, document.key)

    # --- running -------------------------------------------------------------------------------------------------------

    async def work(self, payload: bytes) -> bytes:
        """Runs a slot. This is the function of the kind of work `WORK`."""
        job_id, at = msgspec.json.decode(payload, type=tuple[str, int])
        lease = await self._store.lease()
        begun = await self._rows.begin(job_id, at / 1000, lease=lease, now=self._clock())
        if begun is None:
            return b""
        job, slot = begun
        outcome = await self._outcome(job, slot)
        await self._end(job, slot, outcome, lease)
        return b""

    async def _outcome(self, job: Job, slot: Slot) -> JobOutcome:
        """Returns the outcome of a run. Whatever ends it, its slot ends too, or its job would never run again. If that is a lost
        lease or the end of this process, the slot cannot be ended here, and is done by another process."""
        try:
            return await self._run_job(job, slot)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return JobOutcome(succeeded=False, note="its run was stopped")
        except Exception as error:  # whatever it is, it is the outcome of the job
            if not isinstance(error, ToolcaddieError):
                log.exception("job_crashed", job=job.id)
            return JobOutcome(succeeded=False, note=f"{type(error).__name__}: {error}")

    async def _end(self, job: Job, slot: Slot, outcome: JobOutcome, lease: int) -> None:
        now = self._clock()
        goes_on = slot.manual or not job.is_once
        failed = not outcome.succeeded and not slot.manual
        if outcome.succeeded:
            log.info("job_done", job=job.id, bot=job.owner.bot)
        else:
            log.warning("job_failed", job=job.id, bot=job.owner.bot, reason=outcome.note)
        await self._rows.end(
            slot,
            outcome,
            lease=lease,
            now=now,
            not_before=now + back_off(job.failures + 1) if failed else None,
            stop=not goes_on,
            delete=not goes_on and job.delete_after_run and outcome.succeeded,
        )
        self.wake()


def _tenants(jobs: Sequence[Job]) -> Mapping[str, str]:
    """Returns the tenants of jobs by the id of the job."""
    return {job.id: job.owner.tenant for job in jobs}


def _payload(slot: Slot) -> bytes:
    return msgspec.json.encode((slot.job, milliseconds(slot.at)))
