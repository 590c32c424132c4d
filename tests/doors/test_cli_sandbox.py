"""`toolcaddie sandbox`: what holds on this machine, and a command in the sandbox."""

from __future__ import annotations

import json

import pytest

from tests.doors.commandline import CommandLine
from tests.sandbox.machines import WALL_MISSING

needs_wall = pytest.mark.skipif(bool(WALL_MISSING), reason=WALL_MISSING)


def plain(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text('[sandbox]\ntype = "plain"\nseconds = 5\n')


@needs_wall
def test_the_wall_of_this_machine_holds(toolcaddie: CommandLine) -> None:
    report = toolcaddie.json("sandbox", "check")
    assert report["holds"]
    names = {fact["name"] for fact in report["facts"]}
    assert names >= {"files", "processes", "network", "memory", "time", "system calls"}
    assert "files of the host are absent" in toolcaddie.ok("sandbox", "check")


def test_a_sandbox_without_a_wall_fails_the_check_and_says_what_to_do(toolcaddie: CommandLine) -> None:
    plain(toolcaddie)
    result = toolcaddie("sandbox", "check")
    assert result.exit_code == 1
    assert "FAILS" in result.stdout
    assert 'set type = "wall"' in result.stderr
    assert not json.loads(toolcaddie("sandbox", "check", "--json").stdout)["holds"]


@needs_wall
def test_a_command_runs_in_the_wall_with_its_own_exit_code(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "note").write_text("from the host")
    result = toolcaddie("sandbox", "run", "--work", ".", "--", "sh", "-c", "cat note; touch new; exit 3")
    assert (result.exit_code, result.stdout) == (3, "from the host")
    assert (toolcaddie.home / "new").exists()
    result = toolcaddie("sandbox", "run", "--work", ".", "--read-only", "--", "touch", "other")
    assert result.exit_code == 1
    assert not (toolcaddie.home / "other").exists()


def test_a_command_whose_time_is_up_has_the_exit_code_of_timeout(toolcaddie: CommandLine) -> None:
    plain(toolcaddie)
    result = toolcaddie("sandbox", "run", "--seconds", "0.2", "--", "sleep", "60")
    assert result.exit_code == 124
    assert "the command was ended: timeout" in result.stderr


def test_an_unknown_setting_of_the_sandbox_is_named(toolcaddie: CommandLine) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text("[sandbox]\nmemory = 5\n")
    assert "memory" in toolcaddie.refused("sandbox", "run", "--", "true")
