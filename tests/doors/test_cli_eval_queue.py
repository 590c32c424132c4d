"""`toolcaddie eval --queue`: a server measures it, another one goes on if that is killed (-9), and every process shows it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.databases import KINDS, url_of_kind
from tests.doors.commandline import CommandLine
from tests.doors.processes import PATIENCE, serving

REQUESTS = [
    {"query": "register a new client named Ann", "gold": ["create_client"]},
    {"query": "switch the app to dark mode", "gold": ["change_theme"]},
    {"query": "list the branches of the gym", "gold": ["get_branches_info"]},
]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "data.sqlite")


@pytest.fixture
def home(url: str, tmp_path: Path) -> Path:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "toolcaddie.toml").write_text(f'database_url = "{url}"\n[storage]\nlease = 1\n')
    return tmp_path


def queries(home: Path, times: int) -> Path:
    file = home / "queries.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in REQUESTS * times))
    return file


def shown(line: CommandLine, url: str, evaluation: str, *statuses: str) -> Any:
    """The evaluation once it has one of these statuses."""
    deadline = time.monotonic() + PATIENCE
    while (now := line.json("eval", "show", evaluation, "--database-url", url))["status"] not in statuses:
        assert time.monotonic() < deadline, now
        assert now["status"] in ("queued", "running", "lost"), now
    return now


def test_another_server_goes_on_with_the_evaluation_of_a_killed_one(url: str, home: Path) -> None:
    line = CommandLine(home)
    words = ("--catalog", "gym", "--queries", queries(home, 200), "--at", "3", "--database-url", url)
    evaluation = line.json("eval", *words, "--queue")["id"]
    assert line.json("eval", "show", evaluation, "--database-url", url)["status"] == "queued"
    with serving(home / "first", "--catalog", "gym") as first:
        begun = shown(line, url, evaluation, "running", "done")
        assert begun["status"] == "running"
        work = line.json("jobs", "work", "--database-url", url)["replicas"]
        pieces = [piece["id"] for each in work for piece in each["pieces"]]
        assert pieces == [f"evaluation_{evaluation}"]
        first.kill()
    with serving(home / "second", "--catalog", "gym"):
        done = shown(line, url, evaluation, "done")
    here = line.json("eval", *words)
    assert done["outcome"]["record"]["metrics"] == here["metrics"]
    assert done["outcome"]["record"]["requests"] == here["requests"]
    assert "recall@5" in line.ok("eval", "show", evaluation, "--database-url", url)
    (listed,) = line.json("eval", "show", "--database-url", url)["evaluations"]
    assert (listed["id"], listed["status"]) == (evaluation, "done")


def test_one_that_waits_and_one_that_runs_are_cancelled(url: str, home: Path) -> None:
    line = CommandLine(home)
    words = ("--catalog", "gym", "--queries", queries(home, 500), "--queue", "--database-url", url)
    waits = line.json("eval", *words)["id"]
    line.ok("eval", "cancel", waits, "--database-url", url)
    assert line.json("eval", "show", waits, "--database-url", url)["status"] == "cancelled"
    runs = line.json("eval", *words)["id"]
    with serving(home / "first", "--catalog", "gym"):
        shown(line, url, runs, "running")
        line.ok("eval", "cancel", runs, "--database-url", url)
        shown(line, url, runs, "cancelled")
    ended = line("eval", "cancel", runs, "--database-url", url)
    assert (ended.exit_code, "has ended already" in ended.stderr) == (2, True)


def test_what_cannot_be_handed_in_is_refused(home: Path) -> None:
    line = CommandLine(home)
    words = ("eval", "--catalog", "gym", "--queries", queries(home, 1), "--queue")
    assert "--queue goes without --fit" in line(*words, "--fit").stderr
    assert "database on disk" in line(*words, "--database-url", "sqlite:///:memory:").stderr
