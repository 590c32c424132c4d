"""A process that runs jobs and writes each run to a file, and what tests and the benchmark need to start one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from toolcaddie.core.jobs import CatchUp, Job, JobLimits, JobOutcome, Slot
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.jobs.scheduler import WORK, RunJob, Scheduler
from toolcaddie.storage.database import Database

LEASE = 1.0


@asynccontextmanager
async def running(
    url: str, run_job: RunJob, *, policy: CatchUp = "last", clock: Callable[[], float] = time.time
) -> AsyncIterator[tuple[JobDesk, Scheduler, DurableQueue]]:
    """Everything that runs jobs, on one database. Jobs may run every second."""
    async with Database(url, lease=LEASE) as database:
        queue = DurableQueue(url, database.store, {WORK: WorkKind(do=lambda payload: scheduler.work(payload))})
        catch_up = CatchUpRule(policy=policy)
        scheduler = Scheduler(database.jobs, database.store, queue, run_job, catch_up=catch_up, clock=clock)
        desk = JobDesk(
            rows=database.jobs,
            store=database.store,
            limits=JobLimits(least_seconds=1.0),
            zone="Europe/Madrid",
            wake=scheduler.wake,
        )
        async with queue, scheduler:
            yield desk, scheduler, queue


async def _main(url: str, path: str, pause: float) -> None:
    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        _write(path, f"begun {slot.work_id}")
        await asyncio.sleep(pause)
        _write(path, f"ended {slot.work_id}")
        return JobOutcome(succeeded=True)

    async with running(url, run_job, policy="all"):
        print("ready", flush=True)
        await asyncio.Event().wait()


def _write(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
