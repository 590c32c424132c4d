"""Commands that show or continue runs settle those of killed processes first; no server need run for that."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal

import pytest

from tests.databases import home_url
from tests.doors.commandline import CommandLine
from tests.doors.test_cli_settle import STARTED, runtime_over
from toolcaddie.storage.database import Database
from toolcaddie.testing import call

LEASE = 0.3


def killed_while_booking(url: str) -> None:
    """Calls the tool `book` in the run r, and is killed in the middle of the call."""
    asyncio.run(_until_killed(url))


async def _until_killed(url: str) -> None:
    async with Database(url, lease=LEASE) as database:
        runtime, _ = runtime_over(database, call("book", {"room": 7}, call_id="c1"))
        await runtime.run("book room 7", run_id="r")
        approved = asyncio.create_task(runtime.resume("r", approvals={"c1": True}))
        while not STARTED:  # noqa: ASYNC110  the tool has begun
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGKILL)
        with contextlib.suppress(asyncio.CancelledError):
            await approved


@pytest.fixture
def killed(toolcaddie: CommandLine) -> CommandLine:
    (toolcaddie.home / "toolcaddie.toml").write_text(f"[storage]\nlease = {LEASE}\n")
    process = multiprocessing.get_context("spawn").Process(
        target=killed_while_booking, args=(home_url(toolcaddie.home),)
    )
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    return toolcaddie


def test_a_call_of_a_killed_process_is_unknown_at_the_first_look(killed: CommandLine) -> None:
    (unknown,) = killed.json("runs", "unknown")["calls"]
    assert (unknown["run_id"], unknown["id"]) == ("r", "c1")
    (intended,) = [event for event in killed.json("trail", "r")["events"] if event["kind"] == "call_intended"]
    assert unknown["began"] == intended["at"] < unknown["at"]
    assert "began" in killed.ok("runs", "unknown")
    assert killed.json("runs", "unknown")["under_way"] == 0


def test_a_run_of_a_killed_process_is_not_shown_as_running(killed: CommandLine) -> None:
    (row,) = killed.json("runs")["runs"]
    assert (row["status"], row["resumable"], row["unknown"]) == ("pending", True, 1)


def test_the_outcomes_of_one_run_are_settled_before_they_are_shown(killed: CommandLine) -> None:
    (shown,) = killed.json("runs", "r")["calls"]
    assert shown["state"] == "unknown"


def test_a_person_settles_a_call_of_a_killed_process_at_once(killed: CommandLine) -> None:
    result = killed("runs", "settle", "r", "c1", "--done")
    assert result.exit_code == 0, result.stderr
    assert "`toolcaddie resume r` continues the run with this" in result.stderr


def test_a_run_of_a_killed_process_is_resumed_at_once(killed: CommandLine) -> None:
    result = killed("resume", "r", "--catalog", "gym")
    assert result.exit_code == 0, result.stderr
    assert killed.json("runs")["runs"][0]["status"] == "completed"
