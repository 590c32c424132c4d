"""`toolcaddie db copy`: a database moves to PostgreSQL and back, whole or not at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.copying.filled import ODD_KEY, VALUE, answers
from tests.doors.copying.outcomes import change, failure, require_untouched
from toolcaddie.storage.copying import copy_database
from toolcaddie.storage.database import Database

_KILLED_AT_HALF = """
import os, signal, sys
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.storage.copying import copy_database

def progress(completed, total):
    if completed > total // 2:
        os.kill(os.getpid(), signal.SIGKILL)

copy_database(sys.argv[1], sys.argv[2], progress=progress)
"""


def test_a_database_moves_to_postgresql_and_back_and_answers_the_same(
    toolcaddie: CommandLine,
    template: tuple[Path, str],
    source: str,
    postgresql_url: str,
    other_postgresql_url: str,
    tmp_path: Path,
) -> None:
    before = (tmp_path / "source.sqlite").read_bytes()
    report = toolcaddie.json("db", "copy", source, postgresql_url)
    assert min(report["tables"].values()) > 0, "a table without rows shows nothing"
    assert report["rows"] == sum(report["tables"].values())
    back, again = f"sqlite:///{tmp_path}/back.sqlite", other_postgresql_url
    for one, other in ((postgresql_url, back), (back, again)):
        assert toolcaddie.json("db", "copy", one, other)["tables"] == report["tables"]
    assert (tmp_path / "source.sqlite").read_bytes() == before

    first = answers(toolcaddie, source)
    assert (first["document"], first["check"]["ok"], first["check"]["pruned"] > 0) == (VALUE, True, True)
    assert ODD_KEY in [key for key, _ in first["documents"]]
    for copy in (postgresql_url, back, again):
        assert answers(toolcaddie, copy) == first
        assert asyncio.run(_principal(copy, template[1])) == "ann"


async def _principal(url: str, secret: str) -> str | None:
    async with Database(url) as database:
        key = await database.keys.check(secret)
        return None if key is None else key.principal.id


def test_work_goes_on_in_the_copy(toolcaddie: CommandLine, source: str, target: str) -> None:
    toolcaddie.ok("db", "copy", source, target)
    last = toolcaddie.json("audit", "verify", "--database-url", target)["position"]
    toolcaddie.ok("run", "hello", "--catalog", "gym", "--database-url", target)
    (approval,) = toolcaddie.json("approvals", "list", "--database-url", target)["approvals"]
    toolcaddie.ok("approvals", "deny", approval["id"], "--database-url", target)
    toolcaddie.ok("db", "prune", "--older-than", "90d", "--database-url", target)
    checked = toolcaddie.json("audit", "verify", "--database-url", target)
    assert (checked["ok"], checked["position"] > last) == (True, True)
    assert "laptop" in toolcaddie.refused("keys", "add", "laptop", "--database-url", target)


async def _next_lease(url: str) -> int:
    """The number of the next lease."""
    async with Database(url) as database:
        return await database.leases.own()


def test_a_number_of_a_lease_is_not_given_again_in_the_copy(
    toolcaddie: CommandLine, source: str, target: str, tmp_path: Path
) -> None:
    """A process with an old number would take its successor for itself."""
    given = asyncio.run(_next_lease(source))
    toolcaddie.ok("db", "copy", source, target)
    assert asyncio.run(_next_lease(target)) == given + 1
    back = f"sqlite:///{tmp_path}/back.sqlite"
    toolcaddie.ok("db", "copy", target, back)
    assert asyncio.run(_next_lease(back)) == given + 2


def test_a_copy_that_is_killed_leaves_no_database(toolcaddie: CommandLine, source: str, target: str) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED_AT_HALF, source, target], check=False)
    assert killed.returncode == -9
    require_untouched(toolcaddie, source, target)


def test_a_target_that_was_opened_but_never_used_is_taken(toolcaddie: CommandLine, source: str, target: str) -> None:
    async def open_once() -> None:
        async with Database(target):
            pass

    asyncio.run(open_once())
    assert toolcaddie.json("db", "copy", source, target)["verified"] > 0


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_rows_pass_through_memory_in_small_batches(
    toolcaddie: CommandLine, source: str, postgresql_url: str, kind: str, tmp_path: Path
) -> None:
    async def add_documents() -> None:
        async with Database(source) as database:
            await database.store.put_many("draft", {str(number): VALUE for number in range(1_000)})

    asyncio.run(add_documents())
    if kind == "postgresql":
        toolcaddie.ok("db", "copy", source, postgresql_url)
        source = postgresql_url
    steps: list[int] = []
    copied = copy_database(
        source, f"sqlite:///{tmp_path}/target.sqlite", progress=lambda completed, total: steps.append(completed)
    )
    in_copy = [step for step in steps if step <= sum(copied.tables.values())]
    assert max(after - before for before, after in pairwise([0, *in_copy])) <= 128


def test_a_nul_character_passes_between_files(toolcaddie: CommandLine, source: str, tmp_path: Path) -> None:
    change(source, "update runs set message = 'a' || char(0) || 'b'")
    target = f"sqlite:///{tmp_path}/target.sqlite"
    toolcaddie.ok("db", "copy", source, target)
    messages = [run["message"] for run in toolcaddie.json("trail", "--database-url", target)["runs"]]
    assert set(messages) == {"a\0b"}


def test_the_trail_is_checked_with_the_key_of_the_settings(
    toolcaddie: CommandLine, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAIL_KEY", "k" * 40)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    toolcaddie.ok("audit", "rekey", "--accept-unsealed", "--database-url", source)
    monkeypatch.delenv("TOOLCADDIE_AUDIT_KEY_ENV")
    assert "audit.key_env" in failure(toolcaddie, source, target)
    monkeypatch.setenv("TOOLCADDIE_AUDIT_KEY_ENV", "TRAIL_KEY")
    toolcaddie.ok("db", "copy", source, target)
    assert toolcaddie.json("audit", "verify", "--database-url", target)["keyed"]


def test_a_person_reads_the_rows_of_each_table(toolcaddie: CommandLine, source: str, target: str) -> None:
    printed = toolcaddie.ok("db", "copy", source, target)
    assert "api_keys" in printed
    assert "of the trail checked in the copy, no change" in printed
