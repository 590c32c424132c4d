from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from tests.databases import change, rows, sqlite_only
from toolcaddie.core.errors import AuditError
from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio


def record(run_id: str, seq: int, kind: str = "model_asked", data: Mapping[str, Any] | None = None) -> EventRecord:
    return EventRecord(run_id=run_id, seq=seq, at=1_000.0 + seq, kind=kind, data=data or {})


def started(run_id: str, at: float, message: str = "hello") -> EventRecord:
    data = {"message": message, "principal": {"id": "ann"}, "preset": "default"}
    return EventRecord(run_id=run_id, seq=1, at=at, kind="run_started", data=data)


async def test_records_come_back_as_they_went_in_and_in_order(database: Database) -> None:
    written = [record("a", seq, data={"text": "naïve ✓ \u0000", "score": 0.5, "none": None}) for seq in range(1, 501)]
    for one in written:
        database.events.append(one)
    await database.events.flush()
    assert list(await database.events.events("a")) == written


async def test_runs_do_not_see_each_others_records(database: Database) -> None:
    for seq in (1, 2):
        for run_id in ("a", "b"):
            database.events.append(record(run_id, seq))
    assert [one.seq for one in await database.events.events("a")] == [1, 2]
    assert await database.events.events("never seen") == []


async def test_records_of_many_runs_are_read_at_once_by_their_kind(database: Database) -> None:
    names = [f"run-{number}" for number in range(1_100)]
    for run_id in names:
        database.events.append(record(run_id, 1, "run_started"))
        database.events.append(record(run_id, 2))
        database.events.append(record(run_id, 3, "call_finished"))
    found = await database.events.records(names[50:], ["run_started", "call_finished"])
    assert len(found) == 2 * 1_050
    assert [(one.seq, one.kind) for one in found if one.run_id == "run-600"] == [
        (1, "run_started"),
        (3, "call_finished"),
    ]
    assert await database.events.records([], ["run_started"]) == []
    assert await database.events.records(names, []) == []


async def test_a_reader_sees_what_was_appended_before_without_a_flush(database: Database) -> None:
    database.events.append(record("a", 1))
    assert len(await database.events.events("a")) == 1


async def test_many_tasks_append_and_flush_at_once_and_nothing_is_lost_or_doubled(database: Database) -> None:
    async def write(run_id: str) -> None:
        for seq in range(1, 21):
            database.events.append(record(run_id, seq))
            await database.events.flush()

    await asyncio.gather(*(write(f"run-{number}") for number in range(40)))
    for number in range(40):
        assert [one.seq for one in await database.events.events(f"run-{number}")] == list(range(1, 21))


async def test_flushed_rows_are_seen_by_another_connection_to_the_file(file_url: str) -> None:
    async with Database(file_url) as database:
        database.events.append(record("a", 1))
        await database.events.flush()
        assert rows(file_url, "select count(*) from events") == [(1,)]


async def test_closing_writes_everything_that_is_queued(file_url: str) -> None:
    async with Database(file_url) as database:
        for seq in range(1, 1001):
            database.events.append(record("a", seq))
    async with Database(file_url) as database:
        assert len(await database.events.events("a")) == 1000


async def test_runs_are_listed_newest_first_with_how_they_stand(database: Database) -> None:
    database.events.append(started("old", at=10.0))
    database.events.append(started("new", at=20.0, message="freeze John"))
    database.events.append(started("third", at=15.0))
    ended = {"status": "completed", "calls": 2, "rounds": 3, "seconds": 1.5, "text": "done"}
    database.events.append(record("new", 2, "run_finished", ended))
    database.events.append(record("third", 2, "run_failed", {"status": "failed", "error": "no"}))

    newest, third, old = await database.events.runs()

    assert (newest.run_id, newest.status, newest.calls, newest.rounds, newest.seconds) == (
        "new",
        "completed",
        2,
        3,
        1.5,
    )
    assert (newest.message, newest.principal, newest.preset) == ("freeze John", "ann", "default")
    assert (third.run_id, third.status) == ("third", "failed")
    assert (old.run_id, old.status, old.seconds) == ("old", "running", None)
    assert [run.run_id for run in await database.events.runs(RunQuery(limit=1))] == ["new"]


async def test_runs_are_listed_for_one_tenant_principal_or_status(database: Database) -> None:
    for number, (tenant, principal) in enumerate([("acme", "ann"), ("acme", "ben"), ("umbrella", "ann")]):
        data = {"message": "hi", "principal": {"id": principal, "tenant": tenant}, "preset": "default"}
        database.events.append(record(f"run-{number}", 1, "run_started", data))
    database.events.append(record("run-1", 2, "run_failed", {"status": "failed"}))

    async def listed(**restrictions: str) -> set[str]:
        return {run.run_id for run in await database.events.runs(RunQuery(**restrictions))}

    assert await listed(tenant="acme") == {"run-0", "run-1"}
    assert await listed(tenant="acme", principal="ann") == {"run-0"}
    assert await listed(status="failed") == {"run-1"}
    assert await listed(tenant="umbrella", status="failed") == set()
    assert {run.tenant for run in await database.events.runs(RunQuery(principal="ann"))} == {"acme", "umbrella"}


async def test_pages_of_runs_join_without_a_gap_although_runs_are_added_meanwhile(database: Database) -> None:
    for number in range(7):
        database.events.append(started(f"run-{number}", at=10.0 + number // 3))  # some began at the same moment
    listed: list[str] = []
    query = RunQuery(limit=2)
    while page := await database.events.runs(query):
        listed += [run.run_id for run in page]
        database.events.append(started(f"later-{len(listed)}", at=99.0))
        query = RunQuery(limit=2, before=page[-1].cursor)
    assert listed == ["run-6", "run-3", "run-4", "run-5", "run-0", "run-1", "run-2"]


async def test_a_paused_run_is_pending_until_it_is_carried_on_and_ends(database: Database) -> None:
    database.events.append(started("a", at=10.0))
    database.events.append(record("a", 2, "run_paused", {"status": "pending", "calls": 1}))
    assert (await database.events.runs())[0].status == "pending"
    database.events.append(record("a", 3, "run_finished", {"status": "completed", "calls": 2}))
    assert (await database.events.runs())[0].status == "completed"


@pytest.mark.parametrize("flushes", [False, True])
async def test_a_run_stands_as_its_rows_say_in_one_group_and_in_many(database: Database, *, flushes: bool) -> None:
    end = {"status": "completed", "calls": 2, "rounds": 3, "seconds": 0.5}
    records = [
        started("straight", 1.0),
        started("resumed", 2.0),
        started("open", 3.0),
        record("resumed", 2, "run_paused", {"status": "pending", "calls": 1, "rounds": 1, "seconds": 0.1}),
        record("straight", 2, "run_finished", end),
        record("resumed", 3, "run_resumed", {"status": "running"}),
        record("resumed", 4, "run_finished", {**end, "calls": 5}),
    ]
    for one in records:
        database.events.append(one)
        if flushes:
            await database.events.flush()
    runs = {run.run_id: run for run in await database.events.runs()}
    assert {run_id: (run.status, run.calls, run.rounds, run.seconds) for run_id, run in runs.items()} == {
        "straight": ("completed", 2, 3, 0.5),
        "resumed": ("completed", 5, 3, 0.5),
        "open": ("running", 0, 0, None),
    }
    owner = await database.leases.own()
    assert {run_id: run.owner for run_id, run in runs.items()} == {"straight": None, "resumed": None, "open": owner}


async def test_a_log_that_cannot_write_refuses_until_it_can_again_and_loses_nothing(file_url: str) -> None:
    """Fails closed (design.md 3): no run goes on while its trail is not written."""
    async with Database(file_url) as database:
        change(file_url, "alter table events rename to away")
        database.events.append(record("a", 1))
        with pytest.raises(AuditError, match="nothing may run"):
            await database.events.flush()
        with pytest.raises(AuditError):
            database.events.append(record("a", 2))
        assert await database.events.runs() == []  # reading goes on

        change(file_url, "alter table away rename to events")
        await database.events.flush()
        database.events.append(record("a", 3))
        assert [one.seq for one in await database.events.events("a")] == [1, 3]


async def test_closing_a_log_that_cannot_write_says_how_much_is_lost(file_url: str) -> None:
    database = Database(file_url)
    await database.open()
    change(file_url, "drop table events")
    database.events.append(record("a", 1))
    with pytest.raises(AuditError, match="1 rows of the trail are lost"):
        await database.close()


async def test_a_closed_log_refuses(file_url: str) -> None:
    async with Database(file_url) as database:
        pass
    with pytest.raises(AuditError, match="closed"):
        database.events.append(record("a", 1))


async def test_a_cancelled_flush_leaves_the_rows_to_be_written(database: Database) -> None:
    database.events.append(record("a", 1))
    waiting = asyncio.ensure_future(database.events.flush())
    await asyncio.sleep(0)
    waiting.cancel()
    assert len(await database.events.events("a")) == 1


_FULL_DISK = """
import asyncio, os, resource, sys
from toolcaddie.core.errors import AuditError, StorageError
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database

def no_file_over(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    async with Database(sys.argv[1]) as database:
        log = sys.argv[1].removeprefix("sqlite:///") + "-wal"
        no_file_over(os.path.getsize(log) + 64_000)  # the tables alone have a size
        seq = 0
        try:
            while seq < 1000:
                seq += 1
                data = {"text": "x" * 5000}
                database.events.append(EventRecord(run_id="a", seq=seq, at=1.0, kind="x", data=data))
                await database.events.flush()
        except AuditError:
            pass
        else:
            sys.exit("the disk was never full")
        try:
            await database.store.put("kind", "key", b"x" * 10_000)
        except StorageError:
            pass
        else:
            sys.exit("a document was kept on a full disk")
        no_file_over(resource.RLIM_INFINITY)
        await database.events.flush()
        assert [one.seq for one in await database.events.events("a")] == list(range(1, seq + 1))
        assert await database.store.get("kind", "key") is None

asyncio.run(main())
"""


@sqlite_only("a server has a disk of its own")
@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
async def test_a_full_disk_stops_the_log_and_room_on_it_carries_it_on(file_url: str) -> None:
    done = await anyio.run_process([sys.executable, "-c", _FULL_DISK, file_url], check=False)
    assert done.returncode == 0, done.stderr.decode()


_KILLED = """
import asyncio, os, signal, sys
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database

async def main():
    database = Database(sys.argv[1])
    await database.open()
    for seq in range(1, 101):
        database.events.append(EventRecord(run_id="a", seq=seq, at=1.0, kind="x", data={}))
    await database.events.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
async def test_what_was_flushed_survives_a_kill(file_url: str) -> None:
    done = await anyio.run_process([sys.executable, "-c", _KILLED, file_url], check=False)
    assert done.returncode == -signal.SIGKILL
    async with Database(file_url) as database:
        assert len(await database.events.events("a")) == 100


@sqlite_only("it has no file here")
async def test_the_file_and_its_folder_are_for_their_owner_only(file_url: str) -> None:
    async with Database(file_url):
        path = anyio.Path(file_url.removeprefix("sqlite:///"))
        assert (await path.stat()).st_mode & 0o077 == 0
        assert (await path.parent.stat()).st_mode & 0o077 == 0
