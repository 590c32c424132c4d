"""`toolcaddie doctor`: the parts of this machine that the tools of the source `host` can use."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from toolcaddie.guards.openat2 import problem
from toolcaddie.tools.host.programs import place_of

PLAIN = '[sandbox]\ntype = "plain"\n'


def settings(toolcaddie: CommandLine, text: str) -> None:
    (toolcaddie.home / "toolcaddie.toml").write_text(text)


def groups(report: Any) -> dict[str, Any]:
    return {group["group"]: group for group in report["groups"]}


def test_without_a_host_in_the_settings_every_group_is_looked_at_and_nothing_is_made(toolcaddie: CommandLine) -> None:
    result = toolcaddie("doctor", "--json")
    report = json.loads(result.stdout)
    assert {"response", "filesystem", "shell", "plugins"} <= set(groups(report))
    missing = [each for group in report["groups"] for each in group["back_ends"] if not each["present"]]
    assert (result.exit_code, report["complete"]) == ((1, False) if missing else (0, True))
    assert all(each["detail"] for each in missing)
    assert list(toolcaddie.home.iterdir()) == []


@pytest.mark.skipif(bool(problem()), reason=problem() or "")
def test_where_every_part_is_there_the_exit_code_is_0(toolcaddie: CommandLine) -> None:
    settings(toolcaddie, '[[source]]\ntype = "host"\ngroups = ["response", "filesystem"]\n')
    shown = toolcaddie.ok("doctor")
    assert "depends on nothing" in shown
    assert "files (openat2)" in shown
    assert "MISSING" not in shown


def test_a_missing_part_is_named_with_what_to_do(toolcaddie: CommandLine) -> None:
    if place_of("useradd") is None:
        pytest.skip("useradd is not installed")
    table = '[[source]]\ntype = "host"\ngroups = ["plugins"]\nplugins = ["users"]\n'
    settings(toolcaddie, f'{table}\n[source.plugin.users]\nprefix = "{toolcaddie.home}"\n')
    result = toolcaddie("doctor")
    assert result.exit_code == 1
    assert "users: useradd" in result.stdout
    assert "etc/group cannot be read" in result.stdout
    assert "plugins: users: useradd: run the server as root" in result.stderr


@pytest.mark.parametrize("package", ["dbus_fast", "psutil", "pyroute2"])
def test_without_a_package_of_the_extra_the_remedy_is_to_install_it(
    toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "toolcaddie.tools.host.dbus.link", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    settings(toolcaddie, '[[source]]\ntype = "host"\ngroups = ["system", "systemd"]\n')
    report = json.loads(toolcaddie("doctor", "--json").stdout)
    remedies = {each["remedy"] for group in report["groups"] for each in group["back_ends"] if not each["present"]}
    assert "install toolcaddie[host]" in remedies


def test_the_sandbox_of_the_settings_is_the_part_of_the_shell(toolcaddie: CommandLine) -> None:
    settings(toolcaddie, f'{PLAIN}[[source]]\ntype = "host"\ngroups = ["shell"]\n')
    (part,) = groups(toolcaddie.json("doctor"))["shell"]["back_ends"]
    assert (part["name"], part["present"], part["detail"]) == ("sandbox plain", True, "it protects nothing")


def test_a_wrong_setting_of_the_host_is_named(toolcaddie: CommandLine) -> None:
    settings(
        toolcaddie, '[[source]]\ntype = "host"\ngroups = ["filesystem"]\n[[source.filesystem.roots]]\npath = "/none"\n'
    )
    assert "'/none' is not a folder" in toolcaddie.refused("doctor")


def test_the_page_of_the_host_shows_the_parts_that_are_looked_at(toolcaddie: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
    _, _, shown = page.partition("$ toolcaddie doctor\nsource ")
    rows = [re.split(r" {2,}", line) for line in shown.partition("```")[0].splitlines()[1:]]
    report = json.loads(toolcaddie("doctor", "--json").stdout)
    parts = [(group["group"], part["name"]) for group in report["groups"] for part in group["back_ends"]]
    assert [(row[1], row[2]) for row in rows if row[1] != "response"] == parts
