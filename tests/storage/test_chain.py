"""Whoever changes the trail is noticed, and whoever only uses it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import create_engine, text

from tests.databases import KINDS, change, database_url, url_of_kind
from tests.storage.conftest import Clock
from tests.storage.test_database import WITHOUT_CHAIN
from toolcaddie.core.errors import AuditError, StorageError
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database
from toolcaddie.storage.migrations import VERSION_TABLE
from toolcaddie.storage.verification import Anchor, Verification

pytestmark = pytest.mark.anyio

KEY, OTHER = b"k" * 32, b"o" * 32
DAY = 86_400.0


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "trail.sqlite")


def write(database: Database, run_id: str, at: float = 1.0, rows: int = 3) -> None:
    log = database.events
    started = {"message": "hello", "principal": {"id": "ann"}, "preset": "default"}
    log.append(EventRecord(run_id=run_id, seq=1, at=at, kind="run_started", data=started))
    for seq in range(2, rows):
        log.append(EventRecord(run_id=run_id, seq=seq, at=at, kind="model_asked", data={"text": f"naïve ✓ {seq}"}))
    log.append(EventRecord(run_id=run_id, seq=rows, at=at, kind="run_finished", data={"status": "completed"}))


async def written(url: str, *, key: bytes | None = None) -> None:
    """A trail of nine rows."""
    async with Database(url, audit_key=key) as database:
        for name in ("a", "b", "c"):
            write(database, name)


async def check(url: str, anchors: Sequence[Anchor] = (), *, key: bytes | None = None) -> Verification:
    async with Database(url, audit_key=key) as database:
        return await database.audits.verify(anchors)


@pytest.mark.parametrize("key", [None, KEY])
async def test_a_trail_that_nobody_changed_passes(url: str, key: bytes | None) -> None:
    await written(url, key=key)
    await written(url, key=key)
    report = await check(url, key=key)
    assert (report.checked, report.position, report.changes, report.keyed) == (18, 18, [], key is not None)


CHANGES = {
    "update events set data = '{}' where id = 5": [5],
    "update events set run_id = 'z' where id = 5": [5],
    "update events set at = at + 1 where id = 5": [5],
    "update events set seq = 9 where id = 5": [5],
    "update events set kind = 'call_finished' where id = 9": [9],
    "update events set link = (select link from events where id = 4) where id = 5": [5],
    "update events set link = null where id = 5": [5],
    "delete from events where id = 5": [5],
    "delete from events where id > 6": [7],
    "delete from events where id < 4": [1],
    "delete from events": [1],
    "update events set id = 100 where id = 5": [5, 100],
    "insert into events select 10, run_id, seq, at, kind, data, link from events where id = 9": [10],
    "insert into events select 0, run_id, seq, at, kind, data, null from events where id = 9": [0],
    "update trail_head set position = 8": [None],
    "update trail_head set first = 2": [None],
    "update trail_head set key_id = 'x'": [None],
    "update trail_head set trail = 'x'": [None],
    "delete from trail_head": [None],
    "delete from events where id > 6; update trail_head set position = 6, link = (select link from events where id = 6)": [
        None
    ],
    "update events set id = 50 where id = 4; update events set id = 4 where id = 5; update events set id = 5 where id = 50": [
        4,
        5,
    ],
}


@pytest.mark.parametrize("statements", CHANGES)
async def test_each_change_is_found_and_its_row_is_named(file_url: str, statements: str) -> None:
    await written(file_url)
    change(file_url, *statements.split("; "))
    assert [each.row for each in (await check(file_url)).changes][: len(CHANGES[statements])] == CHANGES[statements]


async def test_a_change_is_found_on_postgresql_too(postgresql_url: str) -> None:
    await written(postgresql_url, key=KEY)
    change(postgresql_url, "update events set data = '{}' where id = 5", "delete from events where id = 8")
    assert [each.row for each in (await check(postgresql_url, key=KEY)).changes] == [5, 8]


async def test_without_the_key_nobody_can_seal_a_change_again(file_url: str) -> None:
    """A forger who knows the code, and seals the trail again with another key, or without one."""
    await written(file_url, key=KEY)
    async with Database(file_url, audit_key=OTHER) as forger:
        with pytest.raises(StorageError, match="does not pass the check"):
            await forger.audits.rekey(None)
    change(file_url, "update trail_head set key_id = ''")
    assert (await check(file_url, key=KEY)).changes_total == 1


async def test_rows_cut_off_at_the_end_show_by_an_anchor(url: str, tmp_path: Path) -> None:
    """A forger who puts back an older state of everything: rows, head and seal fit each other."""
    await written(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        older = connection.execute(text("select position, link, seal from trail_head")).one()
    await written(url)
    async with Database(url) as database:
        anchor = await database.audits.anchor()
    assert (await check(url, [anchor])).changes == []
    with engine.begin() as connection:
        connection.execute(text("delete from events where id > 9"))
        connection.execute(
            text("update trail_head set position = :position, link = :link, seal = :seal"), older._asdict()
        )
    engine.dispose()
    assert (await check(url)).changes == []
    (found,) = (await check(url, [anchor])).changes
    assert found.row == 10
    assert "the anchor says that row 18 was written" in found.what


async def test_an_anchor_shows_a_trail_that_was_written_again(file_url: str, tmp_path: Path) -> None:
    await written(file_url)
    async with Database(file_url) as database:
        anchor = await database.audits.anchor()
    change(file_url, "update events set data = '{}' where id = 5")
    async with Database(file_url, audit_key=None) as forger:
        with pytest.raises(StorageError, match="does not pass"):
            await forger.audits.rekey(None)
    forged = msgspec.structs.replace(anchor, position=4)
    assert "its seal does not fit" in (await check(file_url, [forged])).changes[-1].what
    elsewhere = database_url(tmp_path / "other.sqlite")
    await written(elsewhere)
    assert "the database was replaced" in (await check(elsewhere, [anchor])).changes[0].what


async def test_nothing_runs_on_a_trail_whose_end_was_changed(url: str) -> None:
    await written(url)
    change(url, "update trail_head set position = 6", "delete from events where id > 6")
    async with Database(url) as database:
        with pytest.raises(AuditError, match="the head of the trail was changed"):
            await database.events.check()
    change(url, "delete from trail_head")
    async with Database(url) as database:
        with pytest.raises(AuditError, match="the head of the trail is missing"):
            await database.events.check()


async def test_a_running_process_notices_that_an_older_state_was_put_back(url: str) -> None:
    async with Database(url) as database:
        write(database, "a")
        await database.events.flush()
        engine = create_engine(url)
        with engine.connect() as connection:
            older = connection.execute(text("select position, link, seal from trail_head")).one()
        write(database, "b")
        await database.events.flush()
        await database.events.check()
        with engine.begin() as connection:
            connection.execute(
                text("update trail_head set position = :position, link = :link, seal = :seal"), older._asdict()
            )
        engine.dispose()
        with pytest.raises(AuditError, match="ended at row 6 a moment ago and now ends at row 3"):
            await database.events.check()


async def test_a_process_without_the_key_writes_nothing(url: str) -> None:
    await written(url, key=KEY)
    for wrong, reason in ((None, "set audit.key_env"), (OTHER, "name the right variable")):
        async with Database(url, audit_key=wrong) as database:
            with pytest.raises(AuditError, match=reason):
                await database.events.check()


async def test_the_key_of_a_trail_can_be_changed(url: str) -> None:
    await written(url)
    async with Database(url, audit_key=KEY) as database:
        with pytest.raises(StorageError, match="--accept-unsealed"):
            await database.audits.rekey(None)
        assert await database.audits.rekey(None, accept_unsealed=True) == 9
    async with Database(url, audit_key=OTHER) as database:
        assert await database.audits.rekey(KEY) == 9
        write(database, "d")
        await database.events.flush()
    assert (await check(url, key=OTHER)).changes == []
    assert (await check(url, key=KEY)).changes_total == 1


EMPTY = "update trail_head set link = {blob:}, key_id = '', seal = {blob:}"
FORGERIES = {
    "rows made older than the chain": (
        "update events set link = null, data = '{}'",
        f"{EMPTY}, first = 10, position = 9",
    ),
    "as before, with an invented row": (
        "update events set link = null, data = '{}'",
        "insert into events select 10, run_id, 4, at, kind, data, null from events where id = 9",
        f"{EMPTY}, first = 11, position = 10",
    ),
    "all rows removed": ("delete from events", f"{EMPTY}, position = 0"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_an_empty_chain_in_the_place_of_a_keyed_one_is_a_change(url: str, forgery: str) -> None:
    await written(url, key=KEY)
    async with Database(url, audit_key=KEY) as database:
        anchor = await database.audits.anchor()
    change(url, *FORGERIES[forgery])
    for anchors in ([], [anchor]):
        (found,) = (await check(url, anchors, key=KEY)).changes
        assert "somebody who does not have the key wrote it anew" in found.what
    async with Database(url, audit_key=KEY) as database:
        with pytest.raises(AuditError, match="sealed without a key"):
            await database.events.check()
        with pytest.raises(StorageError, match="--accept-unsealed"):
            await database.audits.rekey(None)
        with pytest.raises(StorageError, match="does not pass the check"):
            await database.audits.rekey(None, anchors=[anchor])


async def test_rows_taken_out_of_a_chain_without_a_key_show_by_an_anchor(url: str) -> None:
    await written(url)
    async with Database(url) as database:
        anchor = await database.audits.anchor()
    for statement in FORGERIES["as before, with an invented row"]:
        change(url, statement)
    async with Database(url) as database:
        (found,) = (await database.audits.verify([anchor])).changes
        assert "rows were taken out of the chain" in found.what
        write(database, "next")
        await database.events.flush()
        assert (await database.audits.verify([anchor])).changes_total == 1


async def test_a_trail_gets_its_first_key_with_an_anchor_of_before(url: str) -> None:
    await written(url)
    async with Database(url) as database:
        anchor = await database.audits.anchor()
    async with Database(url, audit_key=KEY) as database:
        assert await database.audits.rekey(None, anchors=[anchor]) == 9
        assert (await database.audits.verify()).changes == []


async def test_a_new_database_needs_no_step_before_its_first_process_has_a_key(url: str) -> None:
    async with Database(url, audit_key=KEY) as database:
        await database.events.check()
        anchor = await database.audits.anchor()
        report = await database.audits.verify([anchor])
        assert (report.changes, report.keyed, report.anchors, report.position) == ([], True, 1, 0)
    async with Database(url) as database:
        with pytest.raises(AuditError, match=r"set audit\.key_env"):
            await database.events.check()
    await written(url, key=KEY)
    assert (await check(url, [anchor], key=KEY)).changes == []


async def test_an_anchor_whose_row_was_pruned_is_counted_and_not_compared(url: str, clock: Clock) -> None:
    async with Database(url, clock=clock) as database:
        write(database, "old", clock.now - 100 * DAY)
        await database.events.flush()
        inner, last = await database.audits.anchor(), None
        write(database, "older", clock.now - 100 * DAY)
        await database.events.flush()
        last = await database.audits.anchor()
        write(database, "young", clock.now)
        await database.events.flush()
        await database.retention.prune(90 * DAY, by="ann")
        report = await database.audits.verify([inner, last])
    assert (report.changes, report.anchors, report.anchors_pruned) == ([], 1, 1)


@asynccontextmanager
async def pruned(url: str, clock: Clock) -> AsyncIterator[Database]:
    """Every second of ten runs was pruned, and then all but the last two."""
    async with Database(url, clock=clock) as database:
        for number in range(10):
            write(database, f"run {number}", clock.now - (100 if number % 2 else 50) * DAY)
        write(database, "young", clock.now)
        await database.events.flush()
        await database.retention.prune(90 * DAY, by="ann", batch=2)
        yield database


async def test_pruning_is_no_change_and_a_deletion_is_no_pruning(url: str, clock: Clock) -> None:
    async with pruned(url, clock) as database:
        report = await database.audits.verify()
        assert (report.changes, report.pruned, report.checked) == ([], 15, 18)
        anchor = await database.audits.anchor()
        change(url, "delete from events where id = 5 or id = 26")
        assert [each.row for each in (await database.audits.verify()).changes] == [26]
        with pytest.raises(StorageError, match=r"nothing is pruned: row 27 \(.*`toolcaddie audit verify`"):
            await database.retention.prune(40 * DAY, by="ann", batch=3)
        write(database, "next", clock.now)
        await database.events.flush()
        report = await database.audits.verify([anchor])
        assert [each.row for each in report.changes] == [26]
        assert report.pruned == 24


TAMPERED = {
    "a row": (["update events set data = '{}' where id = 8"], 8),
    "the moment of a run's rows": (["update events set at = 1 where run_id = 'young'"], 31),
    "the last row of the trail": (["update events set at = 1, link = null where id = 33"], 33),
    "an added row": (
        ["insert into events select 99, run_id, 9, at, kind, data, link from events where id = 3"],
        99,
    ),
    "a pruned row put back": (
        ["insert into events select 5, run_id, 9, at, kind, data, link from events where id = 3"],
        5,
    ),
    "a row before the first": (
        ["insert into events select 0, run_id, 9, at, kind, data, link from events where id = 3"],
        0,
    ),
}


@pytest.mark.parametrize("tampered", TAMPERED)
async def test_pruning_removes_no_changed_row(url: str, clock: Clock, tampered: str) -> None:
    """Nobody can have a pruning remove the traces of what they did."""
    async with pruned(url, clock) as database:
        statements, row = TAMPERED[tampered]
        change(url, *statements, "update runs set started = 1")
        before = await database.audits.verify()
        clock.now += DAY
        with pytest.raises(StorageError, match="nothing is pruned") as error:
            await database.retention.prune(DAY / 2, by="ann", batch=1_000)
        assert str(row) in str(error.value) or row == 0
        assert (await database.audits.verify()).changes == before.changes != []


async def test_pruning_seals_no_forged_record_beside_the_rows_it_removes(url: str, clock: Clock) -> None:
    async with Database(url, clock=clock, audit_key=KEY) as database:
        write(database, "old", clock.now - 100 * DAY)
        write(database, "inconvenient", clock.now)
        write(database, "young", clock.now)
        await database.events.flush()
        change(
            url,
            "insert into trail_gaps select 4, 6, link, link from events where id = 6",
            "delete from events where run_id = 'inconvenient'",
        )
        before = await database.audits.verify()
        with pytest.raises(StorageError, match="the record of pruned rows 4 to 6 was changed"):
            await database.retention.prune(90 * DAY, by="ann")
        assert (await database.audits.verify()).changes == before.changes != []


@pytest.mark.parametrize(
    "statement",
    [
        "update trail_gaps set last = last + 1 where first = 4",
        "update trail_gaps set first = 3 where first = 4",
        "update trail_gaps set link = seal where first = 4",
        "delete from trail_gaps where first = 4",
        "insert into events select 5, run_id, seq, at, kind, data, link from events where id = 1",
    ],
)
async def test_the_record_of_a_pruning_cannot_be_changed(file_url: str, clock: Clock, statement: str) -> None:
    async with pruned(file_url, clock) as database:
        change(file_url, statement)
        assert (await database.audits.verify()).changes_total


async def test_rekeying_keeps_the_records_of_prunings(url: str, clock: Clock) -> None:
    async with pruned(url, clock):
        pass
    async with Database(url, audit_key=KEY) as database:
        await database.audits.rekey(None, accept_unsealed=True)
        assert (await database.audits.verify()).changes == []


async def test_a_trail_may_be_pruned_to_its_last_row(url: str, clock: Clock) -> None:
    async with Database(url, clock=clock) as database:
        write(database, "old", clock.now - 100 * DAY)
        await database.events.flush()
        await database.retention.prune(90 * DAY, by="ann")
        anchor = await database.audits.anchor()
        report = await database.audits.verify([anchor])
        assert (report.changes, report.pruned, report.checked) == ([], 3, 0)
        write(database, "next", clock.now)
        await database.events.flush()
        assert (await database.audits.verify([anchor])).changes == []


async def test_rows_of_before_the_chain_are_not_reported_as_changed(file_url: str, clock: Clock) -> None:
    await written(file_url)
    change(file_url, f"{WITHOUT_CHAIN} update {VERSION_TABLE} set version_num = '0006'")
    async with Database(file_url, audit_key=KEY, clock=clock) as database:
        (refused,) = (await database.audits.verify()).changes
        assert "rekey" in refused.what
        with pytest.raises(AuditError, match="rekey"):
            await database.events.check()
        assert await database.audits.rekey(None, accept_unsealed=True) == 0
        assert (await database.audits.verify()).changes == []
        write(database, "new", clock.now)
        await database.events.flush()
        report = await database.audits.verify()
        assert (report.changes, report.before_chain, report.checked) == ([], 9, 3)
        await database.retention.prune(DAY, by="ann")
        report = await database.audits.verify()
        assert (report.changes, report.before_chain, report.checked, report.pruned) == ([], 0, 3, 0)


async def test_several_processes_write_one_chain(url: str) -> None:
    async def work(number: int) -> None:
        async with Database(url) as database:
            for run in range(10):
                write(database, f"{number}/{run}")
                await database.events.flush()

    await asyncio.gather(*(work(number) for number in range(4)))
    report = await check(url)
    assert (report.checked, report.changes) == (120, [])
