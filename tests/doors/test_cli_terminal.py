"""Tables on terminals: what is copied from them is never cut, whatever their width."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from datetime import datetime
from pathlib import Path

import pytest

from tests.databases import home_environment
from tests.doors.commandline import CommandLine

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_FREEZE = "freeze John's membership"


def _on_terminal(width: int, *words: str) -> list[str]:
    """The lines that a process prints on a terminal of that width, without colours."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "toolcaddie", *words],
        env={**environ, "TERM": "xterm", **home_environment(Path.cwd())},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = _read_to_end(ours)
    assert process.wait(30) == 0, said
    return _STYLE.sub("", said).splitlines()


def _read_to_end(end: int) -> str:
    said = b""
    try:
        while part := os.read(end, 65_536):
            said += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(end)
    return said.decode()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_trail_shows_whole_run_ids_and_the_message_at_any_width(width: int, toolcaddie: CommandLine) -> None:
    run_id = toolcaddie.json("run", _FREEZE, "--catalog", "gym")["run_id"]
    lines = _on_terminal(width, "trail")
    (row,) = [line for line in lines if line.startswith("run_")]
    assert row.split()[0] == run_id
    assert "completed" in row
    assert "freeze" in row
    assert "message" in lines[0]
    assert ("started" in lines[0]) == (width == 120)


def test_keys_show_their_state_on_a_narrow_terminal(toolcaddie: CommandLine) -> None:
    made = toolcaddie.json("keys", "add", "the-laptop-at-the-reception", "--role", "staff", "--bot", "front-desk")
    lines = _on_terminal(80, "keys", "list")
    (row,) = [line for line in lines if line.startswith(made["id"])]
    assert {"the-laptop-at-the-reception", "staff", "live"} <= set(row.split())
    assert "made" not in lines[0]


def test_descriptions_of_tools_have_room_beside_whole_names(toolcaddie: CommandLine) -> None:
    narrow = _on_terminal(80, "tools", "--catalog", "gym", "--category", "memberships")
    wide = _on_terminal(120, "tools", "--catalog", "gym", "--category", "memberships")
    assert any(line.startswith("cancel_membership ") and "may destroy" in line for line in narrow)
    assert len(narrow[0]) - narrow[0].index("what it does") >= 36
    assert "category" not in narrow[0]
    assert "category" in wide[0]
    assert all(len(line) <= 80 for line in narrow)


def test_a_pipe_gets_every_column_whole(toolcaddie: CommandLine) -> None:
    toolcaddie.ok("run", _FREEZE * 20, "--catalog", "gym")
    head, _, row = toolcaddie.ok("trail").splitlines()[:3]
    assert head.split() == ["run", "started", "status", "rounds", "calls", "seconds", "message"]
    assert row.endswith("…")


@pytest.mark.parametrize("width", [80, 120])
def test_each_job_has_one_line_with_its_whole_id_and_next_run(width: int, toolcaddie: CommandLine) -> None:
    Path("toolcaddie.toml").write_text('default_bot = "coach"\n\n[bots.coach]\n\n[[source]]\ntype = "cron"\n')
    for text in ("Drink water", "Read what is new about bots, and write to me " * 5):
        toolcaddie.ok("call", "cron", "action=add", "kind=instruction", f"text={text}", "everyMs=3600000")
    jobs = toolcaddie.json("jobs", "list")["jobs"]
    heading, _, *rows = _on_terminal(width, "jobs", "list")
    assert heading.endswith("outcome")
    assert [row.split()[0] for row in rows] == [job["id"] for job in jobs]
    assert all(
        datetime.fromtimestamp(job["next"]).strftime("%H:%M:%S") in row for job, row in zip(jobs, rows, strict=True)
    )
