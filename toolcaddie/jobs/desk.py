"""Makes, lists, changes and removes jobs. Implements `ports.Jobs` for tools and commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import Cron, Job, JobLimits, NewJob, Slot, milliseconds
from toolcaddie.jobs.installed import REMEDY, is_installed
from toolcaddie.jobs.schedule import checked, next_slot, next_slots
from toolcaddie.ports import Store
from toolcaddie.ports.jobs import JobStore
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.zones import machine_zone, zone_of

SCHEDULERS = "job_schedulers"
"""Kind of the documents of processes that run jobs; the key is the number of the process's lease."""

_LONGEST_NAME = 80
_ID_SIZE = 12


def _nobody() -> None:
    """Wakes nobody, for a desk without a scheduler in its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDesk:
    """`zone`: for schedules that name none. `jitter`: each job gets a delay of its own up to so many seconds. `wake`: called when
    a slot may have to begin earlier than it seemed."""

    rows: JobStore
    store: Store
    limits: JobLimits = JobLimits()
    zone: str = field(default_factory=machine_zone)
    jitter: float = 0.0
    clock: Callable[[], float] = time.time
    wake: Callable[[], None] = _nobody

    def check(self, new: NewJob) -> Job:
        text = new.text.strip()
        if not text:
            raise RequestError("text: it is empty; write the message, or what the bot shall do", param="text")
        if "\0" in text or "\0" in new.name:  # no database but SQLite stores it
            raise RequestError("text: it has a character NUL; leave it out", param="text")
        if len(text) > self.limits.text:
            raise RequestError(f"text: it has {len(text):,} characters, more than {self.limits.text:,}", param="text")
        if new.delete_after_run and getattr(new.schedule, "at", None) is None:
            raise RequestError(
                "deleteAfterRun: it is only for schedules of kind at, which run once", param="deleteAfterRun"
            )
        now = milliseconds(self.clock()) / 1000
        first = checked(new.schedule, zone=self.zone, now=now, least=self.limits.least_seconds)
        name = " ".join(new.name.split())[:_LONGEST_NAME] or _default_name(text)
        job_id = random_id()[:_ID_SIZE]
        delay = 0.0 if self.jitter <= 0 else int(job_id, 16) % milliseconds(self.jitter) / 1000
        tz = new.schedule.tz if isinstance(new.schedule, Cron) and new.schedule.tz else self.zone
        zone = zone_of(tz)
        return Job(
            id=job_id,
            name=name,
            kind=new.kind,
            text=text,
            schedule=new.schedule,
            zone=self.zone if zone is None else zone.key,
            owner=new.owner,
            created=now,
            delete_after_run=new.delete_after_run,
            inherited=new.inherited,
            reply_to=new.reply_to,
            chat=new.chat,
            jitter=delay,
            next=first + delay,
        )

    async def add(self, new: NewJob) -> Job:
        job = self.check(new)
        if not is_installed() and not await self.is_served():
            raise RequestError(
                f"nothing would run the job, because no server runs jobs, and this installation cannot; {REMEDY}",
                code="nobody_runs_jobs",
            )
        if not await self.rows.add(job, most=self.limits.jobs, most_of_owner=self.limits.jobs_of_person):
            raise RequestError(_too_many(self.limits), code="too_many_jobs")
        self.wake()
        return job

    async def get(self, job_id: str, *, by: Principal | None = None) -> Job:
        job = await self.rows.get(job_id[:_LONGEST_NAME])
        if job is None or not _may(job, by):
            raise RequestError(f"there is no job {job_id[:_LONGEST_NAME]!r}", param="jobId", code="unknown_job")
        return job

    async def list(
        self, *, by: Principal | None = None, tenant: str | None = None, bot: str | None = None
    ) -> Sequence[Job]:
        if by is not None:
            return await self.rows.list(tenant=by.tenant, bot=by.bot or "", owner=by.id)
        return await self.rows.list(tenant=tenant, bot=bot)

    async def remove(self, job_id: str, *, by: Principal | None = None) -> Job:
        job = await self.get(job_id, by=by)
        await self.rows.remove(job.id)
        return job

    async def run(self, job_id: str, *, by: Principal | None = None) -> Slot:
        job = await self.get(job_id, by=by)
        slot = Slot(job=job.id, at=milliseconds(self.clock()) / 1000, manual=True)
        if not await self.rows.request(job.id, slot.at):
            raise RequestError(f"the job {job.name!r} is running or about to; wait for its end", code="job_is_running")
        self.wake()
        return slot

    async def switch(self, job_id: str, *, enabled: bool, by: Principal | None = None) -> Job:
        job = await self.get(job_id, by=by)
        following = following_slot(job, after=self.clock()) if enabled else None
        if enabled and following is None:
            raise RequestError(
                f"the job {job.name!r} runs once, and its time has passed; make a new one", code="job_is_over"
            )
        await self.rows.switch(job.id, enabled=enabled, next_slot=following)
        self.wake()
        return msgspec.structs.replace(job, enabled=enabled, next=following)

    async def slots(self, job_id: str, *, most: int = 10) -> Sequence[Slot]:
        return await self.rows.slots(job_id, most=most)

    def next_times(self, job: Job, *, most: int = 3) -> Sequence[float]:
        if job.next is None:
            return []
        later = next_slots(job.schedule, zone=job.zone, after=job.next - job.jitter, anchor=job.created, most=most - 1)
        return [job.next, *(slot + job.jitter for slot in later)]

    async def is_served(self) -> bool:
        page = await self.store.scan(SCHEDULERS)
        alive = await asyncio.gather(*(self.store.holds(int(document.key)) for document in page.documents))
        return any(alive)


def following_slot(job: Job, *, after: float) -> float | None:
    """Returns the first slot of a job after a moment, with its jitter."""
    slot = next_slot(job.schedule, zone=job.zone, after=after - job.jitter, anchor=job.created)
    return None if slot is None else slot + job.jitter


def _may(job: Job, by: Principal | None) -> bool:
    return by is None or (job.owner.owner == by.owner and job.owner.bot == by.bot)


def _too_many(limits: JobLimits) -> str:
    person = limits.jobs_of_person
    if person is None:
        return f"the bot has {limits.jobs} jobs already, which is the limit; remove one first"
    return f"there are {person} jobs of this person, or {limits.jobs} of the bot, already, which is the limit; remove one first"


def _default_name(text: str) -> str:
    return " ".join(text.split())[:40]
