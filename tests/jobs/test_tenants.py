"""Limits of durable work for each tenant, over all processes of one database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.databases import KINDS, url_of_kind
from tests.jobs.tenant_rig import KIND, queue_of
from toolcaddie.core.errors import ConfigError, QueueFullError
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.jobs.scheduler import EARLIER_WORK, WORK
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "data.sqlite")


@contextmanager
def replica(url: str, path: Path, *names: str, pause: float, at_once: int) -> Iterator[None]:
    """Another process that does such work, killed (-9) at the end. `names`: the pieces that it puts."""
    command = [sys.executable, "-m", "tests.jobs.tenant_rig", url, str(path), str(pause), str(at_once), *names]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def most_at_once(lines: list[str], tenant: str) -> int:
    running = most = 0
    for line in lines:
        state, name = line.split()
        if name.startswith(tenant):
            running += 1 if state == "begun" else -1
            most = max(most, running)
    return most


async def test_a_tenant_has_few_pieces_at_once_over_all_processes_and_makes_no_other_wait(
    url: str, tmp_path: Path
) -> None:
    path = tmp_path / "pieces"
    async with (
        Database(url, lease=1.0) as database,
        queue_of(url, database, str(path), 0.2, at_once=2, waiting=100) as queue,
    ):
        with replica(url, path, pause=0.2, at_once=2):
            for number in range(12):
                await queue.put(KIND, f"a{number}", f"a{number}".encode(), tenant="a")
            await queue.put(KIND, "b0", b"b0", tenant="b")
            assert await queue.result("b0", timeout=20) == b"b0"
            assert path.read_text().count("ended a") < 10
            for number in range(12):
                assert await queue.result(f"a{number}", timeout=30) == f"a{number}".encode()
    assert most_at_once(path.read_text().splitlines(), "a") == 2


async def test_more_than_may_wait_is_refused_for_that_tenant_alone(url: str, tmp_path: Path) -> None:
    path = tmp_path / "pieces"
    async with (
        Database(url, lease=1.0) as database,
        queue_of(url, database, str(path), 30, at_once=1, waiting=2) as queue,
    ):

        async def put_four() -> None:
            for number in range(4):  # one of them may have begun meanwhile
                await queue.put(KIND, f"a{number}", b"a", tenant="a")

        with pytest.raises(QueueFullError, match=r"tenant 'a' wait already \(setting jobs.tenant_waiting\)") as refusal:
            await put_four()
        assert refusal.value.retry_after > 0
        await queue.put(KIND, "b", b"b", tenant="b")
        with pytest.raises(ConfigError, match="put with a tenant"):
            await queue.put(KIND, "c", b"c")


async def test_another_process_takes_over_the_pieces_of_a_killed_one(url: str, tmp_path: Path) -> None:
    path = tmp_path / "pieces"
    async with Database(url, lease=1.0) as database:
        with replica(url, path, "a0", "b0", pause=600, at_once=1):
            while not path.exists() or path.read_text().count("begun") < 2:  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.02)
        async with queue_of(url, database, str(path), 0, at_once=1, waiting=10) as queue:
            assert await queue.result("a0", timeout=30) == b"a0"
            assert await queue.result("b0", timeout=30) == b"b0"
    lines = path.read_text().splitlines()
    assert sorted(lines) == ["begun a0"] * 2 + ["begun b0"] * 2 + ["ended a0", "ended b0"]


async def test_slots_that_an_earlier_version_put_still_run_and_tenants_share_the_new_queue(url: str) -> None:
    done: list[str] = []

    async def do(payload: bytes) -> bytes:
        done.append(payload.decode())
        return b""

    earlier = {EARLIER_WORK: WorkKind(do=None)}
    async with Database(url, lease=1.0) as database:
        async with DurableQueue(url, database.store, earlier) as queue:
            await queue.put_many(EARLIER_WORK, [("job:1:1", b"one"), ("job:1:2", b"two")])
        kinds = {WORK: WorkKind(do=do, tenant_at_once=1), EARLIER_WORK: WorkKind(do=do)}
        async with DurableQueue(url, database.store, kinds) as queue:
            await queue.put_many(WORK, [("job:1:2", b"two"), ("job:1:3", b"three")], tenant="a")
            for work_id in ("job:1:1", "job:1:2", "job:1:3"):
                await queue.result(work_id, timeout=20)
    assert sorted(done) == ["one", "three", "two"]
