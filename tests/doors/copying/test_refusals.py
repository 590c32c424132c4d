"""Copies that `toolcaddie db copy` refuses: they name the reason and leave the target as it was."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.copying.filled import LEASE
from tests.doors.copying.outcomes import change, failure, require_untouched
from toolcaddie.core.errors import StorageError
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.storage.copying import copy_database
from toolcaddie.storage.database import Database


def test_a_target_with_rows_is_refused_and_stays(toolcaddie: CommandLine, source: str, target: str) -> None:
    toolcaddie.ok("run", "hello", "--catalog", "gym", "--database-url", target)
    message = toolcaddie.refused("db", "copy", source, target)
    assert "its table events has" in message
    assert "name an empty database" in message
    assert [run["message"] for run in toolcaddie.json("trail", "--database-url", target)["runs"]] == ["hello"]


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_source_that_a_process_uses_is_refused_with_the_name_of_the_process(
    toolcaddie: CommandLine, source: str, postgresql_url: str, kind: str, tmp_path: Path
) -> None:
    if kind == "postgresql":
        toolcaddie.ok("db", "copy", source, postgresql_url)
        source = postgresql_url
    target = f"sqlite:///{tmp_path}/target.sqlite"

    async def copy_beside_a_process() -> str:
        async with Database(source, lease=LEASE) as database:
            await database.leases.own()
            message = await asyncio.to_thread(failure, toolcaddie, source, target)
            assert f"process {os.getpid()} uses this database" in message
            return message

    assert "stop that process" in asyncio.run(copy_beside_a_process())
    require_untouched(toolcaddie, source, target)


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_write_to_the_source_during_the_copy_is_noticed(
    toolcaddie: CommandLine, source: str, postgresql_url: str, kind: str, tmp_path: Path
) -> None:
    if kind == "postgresql":
        toolcaddie.ok("db", "copy", source, postgresql_url)
        source = postgresql_url
    target = f"sqlite:///{tmp_path}/target.sqlite"

    async def revoke() -> None:
        async with Database(source) as database:
            await database.keys.revoke("laptop")

    revocations = iter([revoke])

    def write(completed: int, total: int) -> None:
        for work in revocations:
            asyncio.run(work())

    with pytest.raises(StorageError, match="has written to this database"):
        copy_database(source, target, progress=write)
    require_untouched(toolcaddie, source, target)


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_work_of_bots_that_did_not_end_is_not_left_behind_unnoticed(
    toolcaddie: CommandLine, source: str, postgresql_url: str, kind: str, tmp_path: Path
) -> None:
    if kind == "postgresql":
        toolcaddie.ok("db", "copy", source, postgresql_url)
        source = postgresql_url
    target = f"sqlite:///{tmp_path}/target.sqlite"

    async def never(payload: bytes) -> bytes:
        return await asyncio.Future()

    async def put_and_stop() -> None:
        kinds = {name: WorkKind(do=never) for name in ("bot", "jobs")}
        async with Database(source) as database, DurableQueue(source, database.store, kinds) as queue:
            for name in kinds:
                await queue.put(name, f"{name}:1", b"")

    asyncio.run(put_and_stop())
    assert "1 piece of durable work" in failure(toolcaddie, source, target)
    assert toolcaddie.json("db", "copy", source, target, "--leave-work")["verified"] > 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update runs set message = 'a' || char(0)", "table runs cannot be copied: its column message contains a NUL"),
        ("update runs set principal = printf('%300s', 'x')", "column principal has 300 characters"),
        ("update runs set calls = 5000000000", "column calls is 5000000000, which does not fit into 32 bits"),
        ("update runs set message = cast(x'61ff' as text)", "column message is not valid UTF-8"),
        ("update runs set started = 'soon'", "column started must be a number and is text"),
        ("update documents set value = 'text'", "column value must be bytes and is text"),
        ("update jobs set note = x'00'", "column note must be text and is bytes"),
    ],
)
def test_a_value_that_postgresql_does_not_store_is_named_with_its_row(
    toolcaddie: CommandLine, source: str, postgresql_url: str, statement: str, words: str
) -> None:
    sound = source.replace("source.sqlite", "sound.sqlite")
    toolcaddie.ok("db", "copy", source, sound)
    change(source, statement)
    message = failure(toolcaddie, source, postgresql_url)
    assert words in message
    assert "the row " in message
    require_untouched(toolcaddie, sound, postgresql_url)


def test_a_changed_trail_is_not_copied(toolcaddie: CommandLine, source: str, target: str) -> None:
    change(source, "update events set data = '{}' where id = (select max(id) from events)")
    message = failure(toolcaddie, source, target)
    assert "was changed" in message
    assert "audit verify" in message
    assert "there is no database" in toolcaddie.refused("db", "stats", "--database-url", target)


@pytest.mark.parametrize(("revision", "advice"), [("0010", "toolcaddie db stats"), ("9999", "upgrade Toolcaddie")])
def test_a_source_of_another_version_is_refused(
    toolcaddie: CommandLine, source: str, target: str, revision: str, advice: str
) -> None:
    change(source, f"update toolcaddie_schema set version_num = '{revision}'")
    message = toolcaddie.refused("db", "copy", source, target)
    assert revision in message
    assert advice in message


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        (("sqlite:///missing.sqlite", "sqlite:///new.sqlite"), "no such file"),
        (("sqlite:///:memory:", "sqlite:///new.sqlite"), "in memory"),
        (("sqlite:///a.sqlite", "sqlite:///./a.sqlite"), "the same database"),
        (("mysql://a/b", "sqlite:///new.sqlite"), "not supported"),
        (("nothing", "sqlite:///new.sqlite"), "is not a URL"),
    ],
)
def test_urls_that_name_no_two_databases_are_refused(
    toolcaddie: CommandLine, urls: tuple[str, str], words: str
) -> None:
    assert words in toolcaddie.refused("db", "copy", *urls)
    assert list(toolcaddie.home.iterdir()) == []


def test_a_server_that_cannot_be_reached_is_named_without_its_password(toolcaddie: CommandLine, source: str) -> None:
    message = failure(toolcaddie, source, "postgresql://ann:hunter2@127.0.0.1:1/runs")
    assert "@127.0.0.1:1/runs: connection failed" in message
    assert "hunter2" not in message


def test_a_file_that_is_no_database_is_refused_and_stays(toolcaddie: CommandLine, source: str, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann, " * 500)
    assert "not a database" in failure(toolcaddie, source, f"sqlite:///{tmp_path}/letter.txt")
    assert (tmp_path / "letter.txt").read_text() == "Dear Ann, " * 500
