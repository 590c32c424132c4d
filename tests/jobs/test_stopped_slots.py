"""However a slot of a job ends, the job goes on, and so do all others."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.databases import database_url
from tests.jobs.rig import running
from tests.jobs.test_scheduler import ended, new
from toolcaddie.core.errors import StorageError
from toolcaddie.core.jobs import Cron, Every, Job, JobOutcome, Slot
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_url(tmp_path / "data/toolcaddie.sqlite")


@pytest.mark.parametrize(
    "failure", [asyncio.CancelledError(), StorageError("the run is gone")], ids=["stopped", "lost"]
)
async def test_a_job_whose_run_was_stopped_has_failed_and_runs_again(url: str, failure: BaseException) -> None:
    """A run may be cancelled by something else than the queue, such as the run of another bot that it waited for."""
    stops = True

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        if job.name == "stopped" and stops:
            raise failure
        return JobOutcome(succeeded=True)

    async with running(url, run_job) as (desk, _, _):
        stopped = await desk.add(new(Every(every_ms=1_000), name="stopped"))
        failed = await ended(desk, stopped)
        assert (failed.status, failed.enabled) == ("failed", True)
        assert failed.note
        other = await desk.add(new(Every(every_ms=1_000), name="other"))
        assert (await ended(desk, other)).status == "done"
        stops = False
        await desk.run(stopped.id)
        assert (await ended(desk, stopped)).status == "done"


async def test_a_job_whose_work_was_cancelled_in_the_queue_runs_again(url: str) -> None:
    begun = asyncio.Event()

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        if job.name == "cancelled" and not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return JobOutcome(succeeded=True)

    later = 0.0
    async with running(url, run_job, clock=lambda: time.time() + later) as (desk, _, queue):
        job = await desk.add(new(Every(every_ms=1_000), name="cancelled"))
        await begun.wait()
        (slot,) = await desk.slots(job.id)
        await queue.cancel(slot.work_id)
        later = 120.0
        assert (await ended(desk, job)).enabled
        async with asyncio.timeout(15):
            while (await desk.get(job.id)).status != "done":  # noqa: ASYNC110  the database sets no event
                await asyncio.sleep(0.02)
        (cancelled,) = [each for each in await desk.slots(job.id) if each.at == slot.at]
        assert (cancelled.status, "cancelled" in cancelled.note) == ("failed", True)


async def test_a_job_whose_zone_this_machine_does_not_know_is_disabled_and_the_others_run(url: str) -> None:
    """A database may come from a machine with newer time zones."""

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        return JobOutcome(succeeded=True)

    async with Database(url) as database:
        job = Job(
            id="abc",
            name="elsewhere",
            kind="message",
            text="Hello",
            schedule=Cron(expr="* * * * *", tz="Mars/Olympus"),
            zone="Mars/Olympus",
            owner=new(Every(every_ms=1_000)).owner,
            created=0.0,
            next=1.0,
        )
        assert await database.jobs.add(job, most=50)
    async with running(url, run_job) as (desk, _, _):
        other = await desk.add(new(Every(every_ms=1_000), name="other"))
        assert (await ended(desk, other)).status == "done"
        stuck = await desk.get(job.id)
        assert (stuck.enabled, stuck.status) == (False, "failed")
        assert "Mars/Olympus" in stuck.note
