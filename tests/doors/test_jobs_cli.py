"""`toolcaddie jobs`, on the database alone and beside a process that runs jobs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import database_url
from tests.doors.commandline import CommandLine
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, Job, NewJob
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.storage.database import Database

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_url(tmp_path / "data.sqlite")


@pytest.fixture
def job(url: str) -> Job:
    async def add() -> Job:
        async with Database(url) as database:
            desk = JobDesk(rows=database.jobs, store=database.store, zone="UTC")
            owner = Principal(id="ann", bot="reception")
            return await desk.add(
                NewJob(text="Drink water", name="Water", schedule=Every(every_ms=3_600_000), owner=owner)
            )

    return asyncio.run(add())


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Path]:
    """A process that runs jobs, killed (-9) at the end. It writes its runs to the file."""
    written = tmp_path / "runs"
    command = [sys.executable, "-m", "tests.jobs.rig", url, str(written), "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield written
    finally:
        process.kill()
        process.communicate()


def test_jobs_are_listed_and_shown(url: str, job: Job, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    assert "Water" in line.ok("jobs", "list", "--database-url", url)
    (listed,) = line.json("jobs", "list", "--bot", "reception", "--database-url", url)["jobs"]
    assert (listed["id"], listed["next"], listed["enabled"]) == (job.id, job.next, True)
    assert line.json("jobs", "list", "--bot", "other", "--database-url", url) == {"jobs": []}
    shown = line.json("jobs", "show", job.id, "--database-url", url)
    assert shown["next_times"] == [job.created + count * 3_600 for count in (1, 2, 3)]
    assert "Drink water" in line.ok("jobs", "show", job.id, "--database-url", url)


def test_a_job_is_paused_resumed_and_removed(url: str, job: Job, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    assert line.json("jobs", "pause", job.id, "--database-url", url)["next"] is None
    assert "paused" in line.ok("jobs", "list", "--database-url", url)
    assert "there are no such jobs" in line("jobs", "list", "--bot", "other", "--database-url", url).stderr
    assert line.json("jobs", "resume", job.id, "--database-url", url)["next"] == job.next
    assert "removed" in line.ok("jobs", "remove", job.id, "--database-url", url)
    problem = f"error: there is no job '{job.id}'; `toolcaddie jobs list` shows the ids\n"
    assert line.refused("jobs", "show", job.id, "--database-url", url) == problem


def test_a_misspelt_bot_is_no_empty_list_of_jobs_without_a_word(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("bots", "new", "coach")
    for words, nouns in ((("jobs", "list"), "jobs"), (("improve", "list"), "proposals")):
        assert toolcaddie(*words, "--bot", "coach").stderr == f"there are no such {nouns}\n"
        misspelt = toolcaddie(*words, "--bot", "coahc").stderr
        assert misspelt == f"there are no such {nouns}; there is no bot 'coahc'; did you mean 'coach'?\n"


def test_run_says_that_no_server_runs_jobs_and_the_next_one_runs_it(url: str, job: Job, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    result = line("jobs", "run", job.id, "--database-url", url)
    assert result.exit_code == 0
    assert "no server runs jobs now" in result.stderr
    assert "is running or about to" in line("jobs", "run", job.id, "--database-url", url).stderr
    assert [run["status"] for run in line.json("jobs", "show", job.id, "--database-url", url)["runs"]] == ["waiting"]


def test_run_is_done_by_the_server(url: str, job: Job, server: Path, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    deadline = time.monotonic() + 15
    assert line.json("jobs", "run", job.id, "--database-url", url)["is_served"]
    while not server.exists() or "ended" not in server.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_job_that_nothing_would_run_is_not_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCADDIE_DATABASE_URL", url)
    monkeypatch.setitem(sys.modules, "dbos", None)  # as if the extra were not installed
    Path("toolcaddie.toml").write_text('default_bot = "coach"\n\n[bots.coach]\n\n[[source]]\ntype = "cron"\n')
    line = CommandLine(tmp_path)
    add = ("call", "cron", "action=add", "kind=instruction", "text=Look", "everyMs=3600000")
    refused = line(*add)
    assert refused.exit_code == 2
    assert "nothing would run the job" in refused.stderr
    assert "pip install 'toolcaddie[bots]'" in refused.stderr
    assert line.json("jobs", "list") == {"jobs": []}
    request.getfixturevalue("server")  # another process on the same database runs jobs
    assert "Added" in line.ok(*add)
