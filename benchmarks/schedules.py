"""Runs 10,000 slots of 1,000 jobs while the processes that run them are killed (-9) every five seconds.

    python -m benchmarks.schedules [--quick] [--only sqlite|postgresql|daylight]

On SQLite one process runs the jobs, is killed and started again; on PostgreSQL two do, and one of them is killed in turn. Each
run is a request to a local server, with the id of the slot as its idempotency key. Goals: each slot is run once and none is lost;
slots are right around both changes of daylight saving in ten zones. The process exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import uvloop
from aiohttp import web

from benchmarks import daylight
from tests import postgresql
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, Job, JobLimits, JobOutcome, NewJob, Slot
from toolcaddie.jobs.catching_up import CatchUpRule
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.jobs.scheduler import WORK, Scheduler
from toolcaddie.storage.database import Database

SLOTS = 10
JOBS_OF_A_BOT = 50
SLOWEST = 15
"""Jobs run every second, every two seconds, and so on up to this."""
KILL_SECONDS = 5.0
LEASE = 1.0
MOST_SECONDS = 240.0


@dataclass(slots=True)
class Receiver:
    """Counts what arrives, by idempotency key."""

    arrivals: Counter[str] = field(default_factory=Counter)
    lateness: dict[str, float] = field(default_factory=dict)

    async def receive(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        self.arrivals[key] += 1
        self.lateness.setdefault(key, time.time() - float(request.query["at"]))
        return web.Response()


async def work(url: str, address: str) -> None:
    """Runs jobs until it is killed."""
    async with Database(url, lease=LEASE) as database, aiohttp.ClientSession() as client:

        async def run_job(job: Job, slot: Slot) -> JobOutcome:
            headers = {"Idempotency-Key": slot.work_id}
            async with client.post(address, params={"at": str(slot.at)}, headers=headers) as response:
                response.raise_for_status()
            if isinstance(job.schedule, Every) and slot.at >= job.created + SLOTS * job.schedule.every_ms / 1000 - 0.01:
                await database.jobs.switch(job.id, enabled=False, next_slot=None)
            return JobOutcome(succeeded=True)

        queue = DurableQueue(url, database.store, {WORK: WorkKind(do=lambda payload: scheduler.work(payload))})
        rule = CatchUpRule(policy="all", most=1_000)
        scheduler = Scheduler(database.jobs, database.store, queue, run_job, catch_up=rule)
        async with queue, scheduler:
            await asyncio.Event().wait()


async def chaos(url: str, *, jobs: int, processes: int) -> bool:
    """Runs the jobs, prints figures, and returns True if the goals are reached."""
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/", receiver.receive)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    expected = await _add_jobs(url, jobs)
    kills = 0
    began = time.monotonic()
    workers = [_worker(url, address) for _ in range(processes)]
    try:
        while len(receiver.arrivals) < len(expected) and time.monotonic() - began < MOST_SECONDS:
            await _wait(KILL_SECONDS, lambda: len(receiver.arrivals) >= len(expected))
            if len(receiver.arrivals) < len(expected):
                which = kills % processes
                workers[which].kill()
                workers[which].wait()
                workers[which] = _worker(url, address)
                kills += 1
        seconds = time.monotonic() - began
        await asyncio.sleep(2 * KILL_SECONDS)  # what should not run has time to run
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        await runner.cleanup()
    return await _report(url, receiver, expected, seconds=seconds, kills=kills)


async def _add_jobs(url: str, jobs: int) -> set[str]:
    """Adds jobs and returns the ids of their slots."""
    expected = set()
    async with Database(url, lease=LEASE) as database:
        desk = JobDesk(
            rows=database.jobs,
            store=database.store,
            limits=JobLimits(jobs=JOBS_OF_A_BOT, least_seconds=1.0),
            zone="UTC",
            clock=_later(time.time() + 3.0),
        )
        for number in range(jobs):
            seconds = 1 + number % SLOWEST
            owner = Principal(id="ann", bot=f"bot{number // JOBS_OF_A_BOT}")
            job = await desk.add(NewJob(text="Hello", schedule=Every(every_ms=seconds * 1000), owner=owner))
            slots = (Slot(job=job.id, at=job.created + count * seconds) for count in range(1, SLOTS + 1))
            expected |= {slot.work_id for slot in slots}
    return expected


def _later(moment: float) -> Callable[[], float]:
    """Returns a clock that stands at a moment, so that all jobs are made before the first slot."""
    return lambda: moment


async def _wait(seconds: float, is_over: Callable[[], bool]) -> None:
    for _ in range(round(seconds * 10)):
        if not is_over():
            await asyncio.sleep(0.1)


def _worker(url: str, address: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.schedules", "--worker", url, address])


async def _report(url: str, receiver: Receiver, expected: set[str], *, seconds: float, kills: int) -> bool:
    lost = expected - receiver.arrivals.keys()
    unexpected = receiver.arrivals.keys() - expected
    repeated = sum(count - 1 for count in receiver.arrivals.values())
    late = sorted(receiver.lateness.values()) or [0.0]
    async with Database(url, lease=LEASE) as database:
        slots = [
            slot for job in await database.jobs.list() for slot in await database.jobs.slots(job.id, most=SLOTS * 2)
        ]
    begun_again = sum(max(0, slot.starts - 1) for slot in slots)
    print(f"  {len(receiver.arrivals):,} of {len(expected):,} slots run in {seconds:.0f} s, {kills} processes killed")
    print(f"  lost {len(lost)}, not due {len(unexpected)}, rows of slots {len(slots):,}")
    print(
        f"  sent again with the same key, after a kill in the middle: {repeated} (slots were begun again {begun_again} times)"
    )
    print(
        f"  lateness p50 {late[len(late) // 2]:.2f} s, p95 {late[len(late) * 95 // 100]:.2f} s, most {late[-1]:.2f} s"
    )
    ended = sum(slot.status == "done" for slot in slots)
    return not lost and not unexpected and len(slots) == ended == len(expected) and repeated <= begun_again


def _daylight() -> bool:
    rows = list(daylight.table())
    for zone in daylight.ZONES:
        own = [row for row in rows if row.zone == zone]
        wrong = [f"{row.expr} at {row.change}" for row in own if not row.is_right]
        changes = len({row.change for row in own})
        verdict = "right" if not wrong and changes == 2 else f"WRONG: {wrong or changes}"
        print(
            f"  {zone:22} {changes} changes, {len(own)} expressions, {sum(row.slots for row in own)} slots: {verdict}"
        )
    return all(row.is_right for row in rows) and len({(row.zone, row.change) for row in rows}) == 2 * len(
        daylight.ZONES
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 jobs")
    parser.add_argument("--only", choices=("sqlite", "postgresql", "daylight"))
    parser.add_argument("--worker", nargs=2, metavar=("URL", "ADDRESS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        uvloop.run(work(*options.worker))
        return 0
    jobs = 100 if options.quick else 1_000
    outcomes = []
    if options.only in (None, "daylight"):
        print("daylight saving, ten zones:")
        outcomes.append(_daylight())
    if options.only in (None, "sqlite"):
        print(f"SQLite, {jobs:,} jobs, one process:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(uvloop.run(chaos(f"sqlite:///{folder}/toolcaddie.sqlite", jobs=jobs, processes=1)))
    if options.only in (None, "postgresql"):
        print(f"PostgreSQL, {jobs:,} jobs, two processes:", flush=True)
        with postgresql.server() as server, postgresql.schema(server) as url:
            outcomes.append(uvloop.run(chaos(url, jobs=jobs, processes=2)))
    print("goals reached" if all(outcomes) else "A GOAL IS MISSED")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
