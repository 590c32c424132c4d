"""Jobs run when they are due, once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.databases import KINDS, database_url, url_of_kind
from tests.jobs.rig import running
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import At, Every, Job, JobOutcome, NewJob, Schedule, Slot
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ANN = Principal(id="ann", bot="reception", tenant="acme")
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "data" / "toolcaddie.sqlite")


def new(schedule: Schedule, **others: object) -> NewJob:
    return NewJob(text="Tell the weather.", schedule=schedule, owner=ANN, **others)  # type: ignore[arg-type]


def soon(seconds: float = 0.3) -> At:
    moment = time.time() + seconds
    return At(at=f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment))}.{int(moment % 1 * 1000):03}+00:00")


@contextmanager
def process(url: str, written: Path, *, pause: float) -> Iterator[None]:
    """A process that runs jobs until it is killed (-9) at the end of the context."""
    command = [sys.executable, "-m", "tests.jobs.rig", url, str(written), str(pause)]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert running.stdout is not None
        running.stdout.readline()
        yield
    finally:
        running.kill()
        running.communicate()


async def until(fits: Callable[[], object]) -> None:
    deadline = time.monotonic() + 15
    while not fits():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def ended(desk: JobDesk, job: Job) -> Job:
    deadline = time.monotonic() + 15
    while (now := await desk.get(job.id)).current is not None or now.last is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return now


@pytest.mark.proves("R002-66")
async def test_a_job_that_runs_once_runs_at_its_time_and_is_then_disabled_or_deleted(url: str) -> None:
    runs: list[tuple[str, float]] = []

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        runs.append((job.name, time.time() - slot.at))
        return JobOutcome(succeeded=True)

    async with running(url, run_job) as (desk, _, _):
        deleted = await desk.add(new(soon(), name="deleted", delete_after_run=True))
        kept = await desk.add(new(soon(0.6), name="kept"))
        await until(lambda: len(runs) == 2)
        assert all(late >= 0 for _, late in runs)
        after = await ended(desk, kept)
        assert (after.enabled, after.next, after.status, after.last) == (False, None, "done", kept.next)
        await ended(desk, kept)
        assert deleted.id not in {job.id for job in await desk.list(by=ANN)}


@pytest.mark.proves("R002-66")
async def test_a_job_that_fails_waits_longer_each_time_and_a_success_ends_that(url: str) -> None:
    fails = True

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        if fails:
            raise RequestError("the chat is gone")
        return JobOutcome(succeeded=True)

    async with running(url, run_job) as (desk, _, _):
        job = await desk.add(new(Every(every_ms=1_000)))
        failed = await ended(desk, job)
        assert (failed.status, failed.failures) == ("failed", 1)
        assert "the chat is gone" in failed.note
        assert failed.next is not None
        assert 28 < failed.next - time.time() <= 30
        fails = False
        await desk.run(job.id)
        succeeded = await ended(desk, job)
        assert (succeeded.status, succeeded.failures) == ("done", 0)


@pytest.mark.proves("R002-66")
async def test_a_run_of_a_killed_process_is_done_by_another_one_and_only_that(url: str, tmp_path: Path) -> None:
    """The second process is killed (-9) in the middle of a run; what the first had ended is not run again."""
    written = tmp_path / "runs"
    async with Database(url) as database:
        desk = JobDesk(rows=database.jobs, store=database.store)
        with process(url, written, pause=0):
            done = await desk.add(new(soon()))
            await until(lambda: written.exists() and f"ended job:{done.id}" in written.read_text())
            await ended(desk, done)
        with process(url, written, pause=60):
            cut = await desk.add(new(soon()))
            await until(lambda: f"begun job:{cut.id}" in written.read_text())
        assert [slot.status for slot in await desk.slots(cut.id)] == ["running"]
        with process(url, written, pause=0):
            await ended(desk, cut)
        (slot,) = await desk.slots(cut.id)
    assert (slot.status, slot.starts) == ("done", 2)
    lines = written.read_text().splitlines()
    assert [line.split()[0] for line in lines if done.id in line] == ["begun", "ended"]
    assert [line.split()[0] for line in lines if cut.id in line] == ["begun", "begun", "ended"]


async def test_missed_slots_follow_the_rule_of_catching_up() -> None:
    job = Job(
        id="a",
        name="",
        kind="message",
        text="",
        schedule=Every(every_ms=60_000),
        zone="UTC",
        owner=ANN,
        created=0.0,
        next=60.0,
    )
    assert CatchUpRule(policy="last").claim(job, 330.0) == (300.0, 360.0, 4)
    assert CatchUpRule(policy="all").claim(job, 330.0) == (60.0, 120.0, 0)
    assert CatchUpRule(policy="all", most=2).claim(job, 330.0) == (180.0, 240.0, 2)
    assert CatchUpRule(policy="skip").claim(job, 330.0) == (300.0, 360.0, 4)
    assert CatchUpRule(policy="skip").claim(job, 120.0 + 59) == (120.0, 180.0, 1)
    assert CatchUpRule(policy="last").claim(job, 60.5) == (60.0, 120.0, 0)


async def test_a_bot_has_a_limited_number_of_jobs_and_a_person_sees_only_their_own(url: str) -> None:
    async with Database(url) as database:
        desk = JobDesk(rows=database.jobs, store=database.store)
        for _ in range(50):
            await desk.add(new(Every(every_ms=60_000)))
        with pytest.raises(RequestError, match="50 jobs already"):
            await desk.add(new(Every(every_ms=60_000)))
        for other in (Principal(id="bob", bot="reception", tenant="acme"), Principal(id="ann", bot="reception")):
            assert await desk.list(by=other) == []
            with pytest.raises(RequestError, match="there is no job"):
                await desk.get((await desk.list())[0].id, by=other)
        assert len(await desk.list(by=ANN)) == 50
        assert not await desk.is_served()


@pytest.mark.parametrize("turns", range(5))
async def test_a_scheduler_that_is_woken_while_it_closes_closes(tmp_path: Path, turns: int) -> None:
    """`turns`: of the event loop, between both. A job that ends wakes the scheduler, and may end at any of them."""

    async def run_job(job: Job, slot: Slot) -> JobOutcome:
        return JobOutcome(succeeded=True)

    async with running(database_url(tmp_path / "data.sqlite"), run_job) as (_, scheduler, _):
        await asyncio.sleep(0.3)  # until it waits for work; if it is later, the test proves nothing, and passes
        scheduler.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        closed, _ = await asyncio.wait({asyncio.create_task(scheduler.close())}, timeout=3)
        assert closed
