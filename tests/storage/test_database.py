from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from tests.databases import AS_MIGRATED, change, database_url, rows, sqlite_only
from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunState
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.storage.migrations import VERSION_TABLE
from toolcaddie.storage.runs import RUN, StoredRun, StoredRuns
from toolcaddie.storage.tables import metadata

NOBODY = 65534
"""A user without permissions."""

WITHOUT_CHAIN = (
    "alter table events drop column link; drop table trail_head; drop table trail_gaps;"
    "alter table api_keys drop column limits; drop table key_windows; drop table key_usage;"
    "drop table jobs; drop table job_slots;"
    "drop index runs_by_bot; drop index runs_by_principal; drop table run_tools; alter table runs drop column bot;"
    "drop table figures; drop table figures_position; drop index runs_waiting; drop table commit_marks;"
)
"""Makes the database one of a version without a chain over the trail."""


@pytest.mark.anyio
async def test_the_migrations_make_the_tables_the_code_uses(file_url: str) -> None:
    async with Database(file_url):
        pass
    engine = create_engine(file_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=AS_MIGRATED)
        assert compare_metadata(context, metadata) == []
    engine.dispose()


@pytest.mark.anyio
async def test_runs_of_an_older_version_are_given_their_tenant(file_url: str) -> None:
    principal = {"id": "ann", "tenant": "acme"}
    data = {"message": "hi", "principal": principal, "preset": "default"}
    async with Database(file_url) as database:
        database.events.append(EventRecord(run_id="a", seq=1, at=1.0, kind="run_started", data=data))
    change(
        file_url,
        f"{WITHOUT_CHAIN} drop index runs_by_tenant; alter table runs drop column tenant; drop table log_entries;"
        "alter table runs rename column calls to turns;"
        f"update {VERSION_TABLE} set version_num = '0003'",
    )
    async with Database(file_url) as database:
        assert [run.tenant for run in await database.events.runs()] == ["acme"]


@pytest.mark.anyio
async def test_the_trail_of_an_older_version_is_read_with_the_present_names(file_url: str) -> None:
    begun = {"message": "hi", "principal": {"id": "ann"}, "preset": "default"}
    records = [("run_started", begun), ("call_finished", {"name": "lock_doors", "turn": 1})]
    records += [("run_finished", {"status": "completed", "rounds": 2, "turns": 1, "seconds": 0.5})]
    async with Database(file_url) as database:
        for seq, (kind, data) in enumerate(records, start=1):
            database.events.append(EventRecord(run_id="a", seq=seq, at=float(seq), kind=kind, data=data))
    change(
        file_url,
        f"{WITHOUT_CHAIN} alter table runs rename column calls to turns; update runs set turns = 1;"
        f"update {VERSION_TABLE} set version_num = '0005'",
    )

    async with Database(file_url) as database:
        (run,) = await database.events.runs()
        _, call, end = await database.events.events("a")

    assert (run.status, run.rounds, run.calls) == ("completed", 2, 1)
    assert call.data == {"name": "lock_doors", "number": 1}
    assert end.data == {"status": "completed", "rounds": 2, "calls": 1, "seconds": 0.5}


@pytest.mark.anyio
async def test_a_run_that_an_older_version_stored_keeps_its_count_of_calls() -> None:
    documents, message = MemoryStore(), Message(role="user", content='the word "turns": of a person')
    state = RunState(run_id="a", status="pending", messages=(message,), calls=7)
    run = StoredRun(request=RunRequest(messages=[message]), state=state, meta_categories=())
    older = msgspec.json.encode(run).replace(b'"calls":7', b'"turns":7')
    assert older != msgspec.json.encode(run)
    await documents.put(RUN, "a", older)

    stored = await StoredRuns(documents).find("a", None)
    assert stored.state == state
    assert stored.state.calls == 7


@sqlite_only("its settings")
@pytest.mark.anyio
async def test_sqlite_is_set_up_to_keep_what_it_was_told(file_url: str) -> None:
    async with Database(file_url) as database:
        assert rows(file_url, "pragma journal_mode") == [("wal",)]
        with database._engine.connect() as connection:
            pragmas = {
                name: connection.exec_driver_sql(f"pragma {name}").scalar()
                for name in ("synchronous", "busy_timeout", "foreign_keys")
            }
    assert pragmas == {"synchronous": 2, "busy_timeout": 5000, "foreign_keys": 1}


@pytest.mark.anyio
async def test_a_database_of_a_newer_version_is_refused(file_url: str) -> None:
    async with Database(file_url):
        pass
    change(file_url, f"update {VERSION_TABLE} set version_num = '9999'")
    with pytest.raises(ConfigError, match=r"newer Toolcaddie \(its schema is 9999\); upgrade"):
        await Database(file_url).open()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("not a url", "is not a URL; write sqlite:///"),
        ("mysql://localhost/x", "'mysql' is not supported; use sqlite or postgresql"),
        ("postgresql+psycopg2://host/x", "driver of 'postgresql\\+psycopg2' is not installed"),
        ("sqlite+aiosqlite:///x.db", "aiosqlite"),
        ("sqlite+nothing:///x.db", "no driver 'sqlite\\+nothing'"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_at_once(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Database(url)


@pytest.mark.anyio
async def test_a_path_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"file/x\.db.*choose a path this user may write"):
        await Database(f"sqlite:///{tmp_path}/file/x.db").open()


@contextmanager
def without_root() -> Iterator[None]:
    """Takes root's permission to write everywhere from this process."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such permissions there")
@pytest.mark.anyio
async def test_a_folder_without_permission_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with without_root(), pytest.raises(ConfigError, match=r"Permission denied.*correct the permissions of that folder"):
        await Database(f"sqlite:///{tmp_path}/closed/x.db").open()


@pytest.mark.anyio
async def test_a_file_that_is_no_database_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(ConfigError, match="not a database"):
        await Database(f"sqlite:///{path}").open()
    assert path.read_text().startswith("Dear Sir")


@pytest.mark.anyio
async def test_a_database_with_other_tables_of_these_names_is_refused_whole(tmp_path: Path) -> None:
    url = database_url(tmp_path / "theirs.db")
    change(url, "create table runs (marathon text)")
    with pytest.raises(ConfigError, match="Toolcaddie's own"):
        await Database(url).open()
    assert rows(url, "select marathon from runs") == []
    with pytest.raises(DBAPIError, match="events"):
        rows(url, "select * from events")


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    for url in (
        f"sqlite://user:hunter2@/{tmp_path}/x.db",
        "mysql://user:hunter2@host/x",
        "postgres//user:hunter2@host",
    ):
        with pytest.raises(ConfigError) as raised:
            Database(url)
        assert "hunter2" not in str(raised.value)


@pytest.mark.anyio
async def test_a_database_that_is_not_open_refuses(file_url: str) -> None:
    database = Database(file_url)
    with pytest.raises(StorageError, match="not open yet"):
        await database.store.put("run", "a", b"")


@pytest.mark.anyio
async def test_an_error_of_the_database_has_one_line_without_what_was_asked_for(file_url: str) -> None:
    async with Database(file_url) as database:
        change(file_url, "drop table documents")
        for work in (database.store.get("draft", "of somebody"), database.store.put("draft", "of somebody", b"x")):
            with pytest.raises(StorageError, match="documents") as raised:
                await work
            assert "of somebody" not in str(raised.value)
            assert "\n" not in str(raised.value)


@sqlite_only("the lock of its file")
@pytest.mark.anyio
async def test_a_new_file_that_another_process_is_setting_up_is_waited_for(file_url: str) -> None:
    path = file_url.removeprefix("sqlite:///")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.executescript(
        "create table first (a); begin immediate"
    )  # SQLite refuses the write-ahead log meanwhile, and at once
    end = threading.Timer(0.2, other.rollback)
    end.start()
    try:
        async with Database(file_url) as database:
            assert await database.events.runs() == []
    finally:
        end.join()
        other.close()


@pytest.mark.anyio
async def test_opening_again_changes_nothing(file_url: str) -> None:
    for _ in range(3):
        async with Database(file_url) as database:
            await database.store.put("run", "a", b"x")
    assert rows(file_url, "select count(*) from documents") == [(1,)]


@pytest.mark.anyio
async def test_a_database_may_be_closed_twice(file_url: str) -> None:
    async with Database(file_url) as database:
        await database.leases.own()
        await database.close()


_OPEN_AND_WRITE = """
import asyncio, sys
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database

async def main():
    async with Database(sys.argv[1]) as database:
        for seq in range(20):
            database.events.append(EventRecord(run_id=sys.argv[2], seq=seq, at=1.0, kind="x", data={}))
            await database.events.flush()

asyncio.run(main())
"""


@pytest.mark.anyio
async def test_several_processes_make_and_fill_one_new_file_at_once(file_url: str) -> None:
    command = [sys.executable, "-c", _OPEN_AND_WRITE, file_url]
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(anyio.run_process, [*command, f"run-{number}"])
    async with Database(file_url) as database:
        for number in range(4):
            assert len(await database.events.events(f"run-{number}")) == 20
