"""`toolcaddie jobs work`: the processes that do durable work, seen from another one."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.databases import KINDS, url_of_kind
from tests.doors.commandline import CommandLine

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of_kind(request, tmp_path / "data.sqlite")


@contextmanager
def replica(url: str, path: Path, *names: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that puts these pieces, does one of each tenant at a time without end, and is killed (-9) at the end."""
    command = [sys.executable, "-m", "tests.jobs.tenant_rig", url, str(path), "600", "1", *names]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def report(line: CommandLine, url: str, *words: str, begun: int) -> Any:
    """Returns what the command shows once that number of pieces have begun."""
    for _ in range(100):
        shown = line.json("jobs", "work", *words, "--database-url", url)
        if sum(len(each["pieces"]) for each in shown["replicas"]) == begun:
            return shown
    raise AssertionError(shown)


def test_it_shows_who_does_what_and_what_waits_for_whom(url: str, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    with replica(url, tmp_path / "pieces", "a0", "a1", "a2", "b0") as process:
        shown = report(line, url, begun=2)
        (one,) = shown["replicas"]
        assert (one["alive"], one["replica"]["pid"], one["replica"]["host"]) == (
            True,
            process.pid,
            socket.gethostname(),
        )
        assert one["replica"]["kinds"] == ["pieces"]
        assert [(each["tenant"], each["kind"], each["starts"]) for each in one["pieces"]] == [
            ("a", "pieces", 1),
            ("b", "pieces", 1),
        ]
        (waiting,) = shown["waiting"]
        assert (waiting["kind"], waiting["tenant"], waiting["count"]) == ("pieces", "a", 2)
        assert waiting["oldest"] >= int(one["replica"]["since"])  # SQLite has whole seconds
        only_b = report(line, url, "--tenant", "b", begun=1)
        assert ([each["id"] for each in only_b["replicas"][0]["pieces"]], only_b["waiting"]) == (["b0"], [])
        text = line.ok("jobs", "work", "--database-url", url)
        assert f"{socket.gethostname()} process {process.pid}: alive, since " in text
        assert "waiting:" in text
    dead = line.json("jobs", "work", "--database-url", url)
    assert [(each["alive"], len(each["pieces"])) for each in dead["replicas"]] == [(False, 2)]
    assert ": dead, since " in line.ok("jobs", "work", "--database-url", url)


def test_without_durable_work_it_says_so(tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    assert line.json("jobs", "work") == {"replicas": [], "waiting": []}
    assert "no process does durable work" in line("jobs", "work").stderr
