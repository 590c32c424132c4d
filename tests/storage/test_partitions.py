"""On PostgreSQL the trail is divided by row id, and what is old is removed with its whole partition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from tests.databases import change, rows
from tests.storage.conftest import Clock
from tests.storage.test_retention import DAY, names, write
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.chain import ChainError
from toolcaddie.storage.copying import copy_database
from toolcaddie.storage.database import Database
from toolcaddie.storage.migrations import upgrade
from toolcaddie.storage.partitions import Partition, partitions, prove_bound
from toolcaddie.storage.prunings import Pruned
from toolcaddie.storage.seals import Head, Sealer
from toolcaddie.storage.verification import Verification

pytestmark = pytest.mark.anyio

SIZE = 30
"""Rows of a partition: ten runs of three rows."""
_WITHOUT = """
    alter table events rename to away; create table events (like away including defaults);
    alter sequence events_id_seq owned by events.id; insert into events select * from away; drop table away;
    alter table events add primary key (id); create index events_by_run on events (run_id, id);
    update toolcaddie_schema set version_num = '0012'
"""
"""Makes a database as the version without partitions left it."""


def open_database(url: str, clock: Clock) -> Database:
    return Database(url, clock=clock, steady=clock, partition_rows=SIZE)


def listed(url: str) -> Sequence[Partition]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return partitions(connection)


def filled(url: str) -> dict[str, int]:
    """The number of rows of each partition that has some."""
    counts = {part.table: rows(url, f"select count(*) from {part.table}")[0][0] for part in listed(url)}
    return {table: count for table, count in counts.items() if count}


async def write_runs(database: Database, name: str, number: int, at: float) -> None:
    for place in range(number):
        write(database, f"{name} {place}", at + place)
        await database.events.flush()


async def verified(database: Database) -> Verification:
    report = await database.audits.verify()
    assert report.changes == []
    return report


@contextmanager
def read_by_another(url: str, table: str) -> Iterator[None]:
    """Lets somebody read a table for as long as the block."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql(f"select count(*) from {table}").scalar()
        yield


async def test_partitions_are_made_ahead_of_the_rows_by_whoever_writes(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as one, open_database(postgresql_url, clock) as other:
        for number in range(60):
            await write_runs(one if number % 2 else other, f"run {number}", 1, clock.now)
            assert listed(postgresql_url)[-1].until > 3 * (number + 1) + SIZE
        await verified(one)
    assert filled(postgresql_url) == {f"events_{first}": SIZE for first in range(1, 180, SIZE)}


async def test_a_trail_that_somebody_analyzes_meanwhile_is_written(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        with create_engine(postgresql_url, poolclass=NullPool).connect() as connection:
            connection.exec_driver_sql("lock table events in share update exclusive mode")
            await write_runs(database, "meanwhile", 9, clock.now)
            assert listed(postgresql_url)[-1].until == 61
        await write_runs(database, "afterwards", 1, clock.now)
        assert listed(postgresql_url)[-1].until == 91


async def test_old_partitions_are_emptied_at_once_and_the_rest_row_by_row(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 25, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        files = rows(postgresql_url, "select pg_relation_filenode('events_1'), pg_relation_filenode('events_61')")
        assert await database.retention.prune(90 * DAY, by="ann") == Pruned(runs=25, events=75)
        assert await names(database) == [f"young {number}" for number in range(10)]
        report = await verified(database)
        assert (report.checked, report.pruned) == (30, 75)
        (record,) = await database.retention.prunings()
        assert (record.runs, record.events, record.first_event, record.last_event) == (25, 75, 1, 75)
        # The two old partitions are gone; the third one had young rows too, and has its file still.
        assert [part.table for part in listed(postgresql_url)][:2] == ["events_first", "events_61"]
        assert rows(postgresql_url, "select pg_relation_filenode('events_61')") == [(files[0][1],)]
        await write_runs(database, "next", 10, clock.now)
        assert (await verified(database)).checked == 60


async def test_runs_that_must_stay_keep_their_rows_in_a_partition_that_is_emptied(
    postgresql_url: str, clock: Clock
) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 4, clock.now - 100 * DAY)
        write(database, "waits", clock.now - 100 * DAY, end="run_paused")
        for seq, kind in enumerate(("console_act", "console_act_step", "console_act_done")):
            database.events.append(EventRecord(run_id="act_1", seq=seq, at=clock.now - 100 * DAY, kind=kind, data={}))
        await write_runs(database, "older", 4, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        before = [await database.events.events(run_id) for run_id in ("waits", "act_1")]
        await database.retention.prune(90 * DAY, by="ann")
        assert [await database.events.events(run_id) for run_id in ("waits", "act_1")] == before
        assert (await verified(database)).checked == 36
        assert filled(postgresql_url) == {"events_first": 6, "events_31": 30}


async def test_a_run_that_went_on_in_a_later_partition_goes_or_stays_as_a_whole(
    postgresql_url: str, clock: Clock
) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 8, clock.now - 100 * DAY)
        for run_id in ("resumed", "settled"):
            write(database, run_id, clock.now - 100 * DAY, end="run_paused")
        end = EventRecord(
            run_id="resumed", seq=4, at=clock.now - 99 * DAY, kind="run_finished", data={"status": "completed"}
        )
        database.events.append(end)
        await write_runs(database, "more", 9, clock.now - 99 * DAY)
        for kind, at in (("run_finished", clock.now - 99 * DAY), ("call_settled", clock.now - DAY)):
            data = {"status": "completed"} if kind == "run_finished" else {}
            database.events.append(EventRecord(run_id="settled", seq=4, at=at, kind=kind, data=data))
        await write_runs(database, "young", 10, clock.now)
        await database.retention.prune(90 * DAY, by="ann")
        assert await names(database) == ["settled", *(f"young {number}" for number in range(10))]
        assert len(await database.events.events("settled")) == 5
        assert await database.events.events("resumed") == []
        await verified(database)


async def test_a_changed_row_in_an_old_partition_stays_with_all_the_others(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 10, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        change(postgresql_url, "update events set data = '{}' where id = 14")
        with pytest.raises(ChainError, match="row 14 "):
            await database.retention.prune(90 * DAY, by="ann")
        assert len(await names(database)) == 20
        assert [each.row for each in (await database.audits.verify()).changes] == [14]


async def test_a_reader_of_an_old_partition_fails_neither_the_removal_nor_a_write(
    postgresql_url: str, clock: Clock
) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 10, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        with read_by_another(postgresql_url, "events"):
            removal = asyncio.create_task(database.retention.prune(90 * DAY, by="ann"))
            await write_runs(database, "meanwhile", 5, clock.now)
        assert await removal == Pruned(runs=10, events=30)
        assert (await verified(database)).checked == 45


async def test_a_long_reader_makes_a_server_wait_with_the_whole_partition(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 10, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        with read_by_another(postgresql_url, "events"):
            assert await database.retention.prune(90 * DAY, by="serve", late=3 * DAY) == Pruned()
        assert await database.retention.prune(90 * DAY, by="serve", late=3 * DAY) == Pruned(runs=10, events=30)
        await verified(database)


async def test_rows_whose_runs_left_the_lists_before_a_crash_go_with_the_next_pruning(
    postgresql_url: str, clock: Clock
) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 10, clock.now - 100 * DAY)
        await write_runs(database, "young", 10, clock.now)
        change(postgresql_url, "delete from runs where run_id in ('old 1', 'old 2', 'old 3')")
        assert await database.retention.prune(90 * DAY, by="ann") == Pruned(runs=7, events=30)
        assert filled(postgresql_url) == {"events_31": 30}
        await verified(database)


async def test_a_server_lets_runs_wait_for_the_end_of_their_partition(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "first", 10, clock.now)
        await write_runs(database, "second", 5, clock.now + DAY)
        await write_runs(database, "third", 5, clock.now + 2 * DAY)
        await write_runs(database, "young", 5, clock.now + 50 * DAY)
        clock.now += 91.5 * DAY
        assert await database.retention.prune(90 * DAY, by="serve", late=3 * DAY) == Pruned(runs=10, events=30)
        assert await database.retention.prune(90 * DAY, by="serve", late=0.5 * DAY) == Pruned(runs=5, events=15)
        clock.now += DAY
        assert await database.retention.prune(90 * DAY, by="serve", late=3 * DAY) == Pruned(runs=5, events=15)


async def test_a_trail_without_partitions_becomes_the_first_one(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "old", 5, clock.now - 100 * DAY)
        await write_runs(database, "young", 15, clock.now)
    change(postgresql_url, _WITHOUT)
    async with open_database(postgresql_url, clock) as database:
        assert listed(postgresql_url)[0] == Partition(table="events_first", first=None, until=61)
        await write_runs(database, "next", 10, clock.now)
        assert filled(postgresql_url) == {"events_first": 60, "events_61": 30}
        assert await database.retention.prune(90 * DAY, by="ann") == Pruned(runs=5, events=15)
        assert (await verified(database)).checked == 75


async def test_a_large_trail_is_read_before_the_migration_while_others_write(postgresql_url: str, clock: Clock) -> None:
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "run", 5, clock.now)
        change(postgresql_url, _WITHOUT)
        engine = create_engine(postgresql_url, poolclass=NullPool)
        prove_bound(engine, larger_than=0)
        await write_runs(database, "meanwhile", 5, clock.now)
        with engine.begin() as connection:
            upgrade(connection)
        await write_runs(database, "afterwards", 5, clock.now)
        first = listed(postgresql_url)[0]
        assert (first.table, first.until > 1_000_000, filled(postgresql_url)) == (
            "events_first",
            True,
            {"events_first": 45},
        )
        await verified(database)


async def test_a_copy_has_room_for_all_rows_of_the_source(postgresql_url: str, clock: Clock, tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.sqlite"
    async with open_database(source, clock):
        pass
    first, sealer = 20_000_001, Sealer()
    trail = rows(source, "select trail from trail_head")[0][0]
    head = sealer.begun(Head(trail=trail, first=first, position=first - 1, link=b"", key_id=""))
    change(
        source,
        f"update trail_head set first = {first}, position = {first - 1}, link = {{blob:{head.link.hex()}}}, "
        f"seal = {{blob:{sealer.head(head).hex()}}}",
    )
    async with open_database(source, clock) as database:
        await write_runs(database, "run", 5, clock.now)
    assert copy_database(source, postgresql_url).verification.checked == 15
    async with open_database(postgresql_url, clock) as database:
        await write_runs(database, "next", 5, clock.now)
        assert (await verified(database)).checked == 30
