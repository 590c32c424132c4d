"""Old runs go, whole, and leave a record; nothing that is still needed goes with them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.databases import sqlite_only
from tests.storage.conftest import Clock
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database
from toolcaddie.storage.prunings import Pruned
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

DAY = 86_400.0


def write(
    database: Database, run_id: str, at: float, *, end: str | None = "run_finished", ended_at: float | None = None
) -> None:
    """A run of three rows, or of two that has not ended."""
    log = database.events
    started = {"message": "hello", "principal": {"id": "ann"}, "preset": "default"}
    log.append(EventRecord(run_id=run_id, seq=1, at=at, kind="run_started", data=started))
    log.append(EventRecord(run_id=run_id, seq=2, at=at, kind="model_asked", data={"text": "x" * 2_000}))
    if end is not None:
        status = {"run_finished": "completed", "run_failed": "failed", "run_paused": "pending"}[end]
        log.append(
            EventRecord(
                run_id=run_id, seq=3, at=at if ended_at is None else ended_at, kind=end, data={"status": status}
            )
        )


async def names(database: Database) -> list[str]:
    return sorted(run.run_id for run in await database.events.runs(RunQuery(limit=10_000)))


async def rows(database: Database, run_ids: Sequence[str]) -> int:
    return sum([len(await database.events.events(run_id)) for run_id in run_ids])


async def test_runs_that_ended_long_ago_go_with_all_their_rows_and_the_others_stay(
    database: Database, clock: Clock
) -> None:
    write(database, "old", clock.now - 91 * DAY)
    write(database, "old and failed", clock.now - 91 * DAY, end="run_failed")
    write(database, "young", clock.now - 89 * DAY)
    await database.events.flush()
    assert await database.retention.prunable(90 * DAY) == Pruned(runs=2, events=6)
    assert await database.retention.prune(90 * DAY, by="a test") == Pruned(runs=2, events=6)
    assert await names(database) == ["young"]
    assert (await rows(database, ["old", "old and failed"]), await rows(database, ["young"])) == (0, 3)
    assert await database.retention.prune(90 * DAY, by="a test") == Pruned()


@pytest.mark.parametrize("end", [None, "run_paused"])
async def test_a_run_that_runs_or_waits_stays_whatever_its_age(
    database: Database, clock: Clock, end: str | None
) -> None:
    write(database, "waits", clock.now - 900 * DAY, end=end)
    write(database, "old", clock.now - 900 * DAY)
    write(database, "young", clock.now)
    await database.events.flush()
    await database.retention.prune(90 * DAY, by="a test")
    assert await names(database) == ["waits", "young"]


async def test_a_run_that_began_long_ago_and_ended_lately_stays(database: Database, clock: Clock) -> None:
    write(database, "long", clock.now - 100 * DAY, ended_at=clock.now - DAY)
    write(database, "young", clock.now)
    await database.events.flush()
    assert await database.retention.prune(90 * DAY, by="a test") == Pruned()
    assert await names(database) == ["long", "young"]


async def test_a_run_that_waits_for_its_callers_tools_can_be_resumed_after_a_pruning(
    file_url: str, clock: Clock
) -> None:
    async with Database(file_url, clock=clock, steady=clock) as database:
        mine = Tool(name="pay", description="Pay somebody.", source="client")
        provider = ScriptedProvider([call("pay", call_id="c1"), say("hello"), say("paid")])
        runtime = Runtime(provider=provider, trail=Trail(database.events, clock), documents=database.store)
        asked = RunRequest(messages=(Message(role="user", content="pay ann"),), client_tools=(mine,), run_id="waits")
        assert (await runtime.run(asked)).status == "client_calls"
        clock.now += 10 * DAY
        await runtime.run("hello", run_id="young")
        await database.events.flush()
        assert await database.retention.prune(5 * DAY, by="a test") == Pruned()
        assert (await runtime.resume("waits", results={"c1": "done"})).text == "paid"
        await runtime.close()


async def test_expired_documents_go_and_nothing_else_of_them(database: Database, clock: Clock) -> None:
    await database.store.put_many("conversation", {str(number): b"x" for number in range(1_200)}, ttl=10)
    await database.store.put("vector", "lasting", b"x")
    _, secret = await database.keys.add("laptop", Principal(id="ann"))
    clock.now += 900 * DAY
    assert await database.retention.prune(90 * DAY, by="a test") == Pruned(documents=1_200)
    assert (await database.retention.statistics()).documents == {"vector": 1}
    assert await database.keys.check(secret)


async def test_each_pruning_leaves_a_record_of_who_removed_which_rows(database: Database, clock: Clock) -> None:
    for number in range(7):
        write(database, f"old {number}", clock.now - 100 * DAY)
    write(database, "young", clock.now)
    await database.events.flush()
    assert await database.retention.prune(90 * DAY, by="ann", batch=3) == Pruned(runs=7, events=21)
    (record,) = await database.retention.prunings()
    assert (record.at, record.by, record.cutoff) == (clock.now, "ann", clock.now - 90 * DAY)
    assert (record.runs, record.events, record.first_event, record.last_event) == (7, 21, 1, 21)


async def test_a_pruning_that_is_cut_short_leaves_a_true_record(database: Database, clock: Clock) -> None:
    for number in range(6):
        write(database, f"old {number}", clock.now - 100 * DAY)
    write(database, "young", clock.now)
    await database.events.flush()
    pruning = asyncio.create_task(database.retention.prune(90 * DAY, by="ann", batch=2, pause=1_000))
    async with asyncio.timeout(60):
        while not any(record.runs for record in await database.retention.prunings()):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
    pruning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pruning
    (record,) = await database.retention.prunings()
    assert (record.runs, record.events, len(await names(database))) == (2, 6, 5)


async def test_an_id_of_a_removed_row_is_never_given_again(database: Database, clock: Clock) -> None:
    for number in range(3):
        write(database, f"old {number}", clock.now - 100 * DAY)
    await database.events.flush()
    await database.retention.prune(90 * DAY, by="ann")
    write(database, "next", clock.now - 100 * DAY)
    write(database, "young", clock.now)
    await database.events.flush()
    await database.retention.prune(90 * DAY, by="ann")
    first, second = await database.retention.prunings()
    assert (first.last_event, second.first_event) == (9, 10)


async def test_runs_go_on_while_others_are_removed(database: Database, clock: Clock) -> None:
    for number in range(200):
        write(database, f"old {number}", clock.now - 100 * DAY)
    await database.events.flush()

    async def work() -> None:
        for number in range(40):
            write(database, f"new {number}", clock.now)
            await database.events.flush()

    removed, _ = await asyncio.gather(database.retention.prune(90 * DAY, by="ann"), work())
    assert removed.runs == 200
    assert (len(await names(database)), await rows(database, [f"new {number}" for number in range(40)])) == (40, 120)


def _size(file_url: str) -> int:
    return Path(file_url.removeprefix("sqlite:///")).stat().st_size


@sqlite_only("PostgreSQL keeps the room for new rows")
async def test_the_file_is_smaller_afterwards(file_url: str, clock: Clock) -> None:
    async with Database(file_url, clock=clock, steady=clock) as database:
        for number in range(300):
            write(database, f"old {number}", clock.now - 100 * DAY)
    before = _size(file_url)
    async with Database(file_url, clock=clock, steady=clock) as database:
        await database.retention.prune(90 * DAY, by="ann")
    assert _size(file_url) < before / 4


@sqlite_only("PostgreSQL's own vacuum shrinks its tables")
async def test_a_file_of_an_older_version_keeps_its_room_for_new_rows_until_it_is_shrunk(
    file_url: str, clock: Clock
) -> None:
    async with Database(file_url, clock=clock, steady=clock) as database:
        for number in range(300):
            write(database, f"old {number}", clock.now - 100 * DAY)
    with sqlite3.connect(file_url.removeprefix("sqlite:///"), isolation_level=None) as other:
        other.execute("pragma auto_vacuum = none")
        other.execute("vacuum")
    before = _size(file_url)
    async with Database(file_url, clock=clock, steady=clock) as database:
        await database.retention.prune(90 * DAY, by="ann")
        held = await database.retention.statistics()
        assert held.free is not None
        assert held.free > held.size / 2
        await database.shrink()
        assert _size(file_url) < before / 4
        await database.store.put("run", "after", b"the file is still the one that was opened")
