"""Needs of PostgreSQL beside the contract that every database keeps (the fixture `database` runs that over it too)."""

from __future__ import annotations

import asyncio
import sys

import anyio
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text

from tests.databases import AS_MIGRATED, locked
from tests.doors.commandline import CommandLine
from tests.storage.test_database import _OPEN_AND_WRITE
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import StorageError
from toolcaddie.storage.database import Database
from toolcaddie.storage.tables import metadata

pytestmark = pytest.mark.anyio

_WITHOUT_DRIVER = """
import sys
sys.modules["psycopg"] = None
from toolcaddie.doors.cli import main
sys.argv = ["toolcaddie", "db", "stats", "--database-url", "postgresql://ann:hunter2@localhost/runs"]
main()
"""


async def test_a_missing_driver_is_said_with_the_extra_that_brings_it() -> None:
    done = await anyio.run_process([sys.executable, "-c", _WITHOUT_DRIVER], check=False)
    said = done.stderr.decode()
    assert (done.returncode, said.count("\n")) == (2, 1)
    assert "pip install 'toolcaddie[postgresql]'" in said
    assert "hunter2" not in said


async def test_the_migrations_make_the_tables_the_code_uses(postgresql_url: str) -> None:
    async with Database(postgresql_url):
        pass
    engine = create_engine(postgresql_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=AS_MIGRATED)
        assert compare_metadata(context, metadata) == []
    engine.dispose()


async def test_several_processes_make_and_fill_one_new_database_at_once(postgresql_url: str) -> None:
    command = [sys.executable, "-c", _OPEN_AND_WRITE, postgresql_url]
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(anyio.run_process, [*command, f"run-{number}"])
    async with Database(postgresql_url) as database:
        for number in range(4):
            assert len(await database.events.events(f"run-{number}")) == 20


async def test_connections_that_the_server_dropped_cost_no_write(postgresql_url: str) -> None:
    async with Database(postgresql_url) as database:
        await database.store.put("run", "before", b"x")
        engine = create_engine(postgresql_url)
        with engine.connect() as other:
            others = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = user"
            other.execute(text(others))
        engine.dispose()
        await database.store.put("run", "after", b"x")
        assert await database.store.get("run", "before") == b"x"


async def test_a_table_that_another_session_holds_fails_a_write_in_time(postgresql_url: str) -> None:
    async with Database(postgresql_url, busy=0.1) as database:
        engine = create_engine(postgresql_url)
        with engine.begin() as other:
            other.execute(text("lock table documents in access exclusive mode"))
            with pytest.raises(StorageError, match="lock timeout"):
                await database.store.put("run", "a", b"x")
        engine.dispose()
        await database.store.put("run", "a", b"x")


async def test_a_text_that_is_not_stored_fails_nothing_that_is_written_with_it(postgresql_url: str) -> None:
    async with Database(postgresql_url) as database:
        await database.store.put("run", "there is", b"a table to lock")
        with locked(postgresql_url):
            first = asyncio.ensure_future(
                database.store.put("run", "first", b"x")
            )  # the others wait together behind it
            key = asyncio.ensure_future(database.keys.add("laptop", Principal(id="ann", role="no\0thing")))
            last = asyncio.ensure_future(database.store.put("run", "last", b"x"))
            await asyncio.sleep(0)  # each of them is handed to the writer
        await asyncio.gather(first, last)
        with pytest.raises(StorageError, match="NUL"):
            await key


async def test_a_run_and_its_trail_work_over_the_command_line(postgresql_url: str, toolcaddie: CommandLine) -> None:
    await anyio.to_thread.run_sync(
        lambda: toolcaddie.ok("run", "hello", "--catalog", "gym", "--database-url", postgresql_url)
    )
    listed = await anyio.to_thread.run_sync(lambda: toolcaddie.json("trail", "--database-url", postgresql_url))
    assert [run["message"] for run in listed["runs"]] == ["hello"]
    held = await anyio.to_thread.run_sync(lambda: toolcaddie.json("db", "stats", "--database-url", postgresql_url))
    assert held["held"]["size"] > 0


@pytest.fixture
def toolcaddie(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.chdir(home)
    return CommandLine(home)
