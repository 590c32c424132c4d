"""`toolcaddie doctor`: the parts of this machine that the tools of the source `host` can use."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from threading import Thread
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
    assert "useradd: run the server as root" in result.stderr


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


def test_the_settings_that_the_page_shows_are_good(toolcaddie: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
    [example] = re.findall(r"^```toml example\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for number, root in enumerate(re.findall(r'^path = "(.*)"', example, re.MULTILINE)):
        (toolcaddie.home / f"root{number}").mkdir()
        example = example.replace(f'path = "{root}"', f'path = "{toolcaddie.home}/root{number}"')
    settings(toolcaddie, example)
    report = json.loads(toolcaddie("doctor", "--json").stdout)
    assert sum(group["tools"] for group in report["groups"]) == 54
    [mount] = [part for part in groups(report)["plugins"]["back_ends"] if part["name"] == "storage: mount"]
    assert not mount["present"] or mount["detail"] == "1 mount point in the settings"


def test_the_page_of_the_host_shows_the_parts_that_are_looked_at(toolcaddie: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()
    _, _, shown = page.partition("$ toolcaddie doctor\nsource ")
    rows = [re.split(r" {2,}", line) for line in shown.partition("```")[0].splitlines()[1:]]
    report = json.loads(toolcaddie("doctor", "--json").stdout)
    parts = [part["name"] for group in report["groups"] for part in group["back_ends"]]
    assert _without_managers(row[2] for row in rows if row[1] != "response") == _without_managers(parts)


def _without_managers(parts: Iterable[str]) -> list[str]:
    """Returns the parts without package managers, of which those are shown that the machine has."""
    return [part for part in parts if not part.startswith("packagekit: ")]


def test_what_to_do_is_said_once_for_each_missing_part_and_not_in_the_table(toolcaddie: CommandLine) -> None:
    nowhere = "unix:/nowhere/db.sock"
    settings(
        toolcaddie,
        '[[source]]\ntype = "host"\ngroups = ["ovs", "plugins"]\nplugins = ["openflow"]\n'
        f'[source.ovs]\ndatabase = "{nowhere}"\n',
    )
    result = toolcaddie("doctor")
    assert result.stdout.count("cannot be reached: No such file or directory") == 2
    assert "install and start" not in result.stdout
    assert result.stderr.count("Open vSwitch: install and start Open vSwitch, or set ovs.database") == 1


class Answering(BaseHTTPRequestHandler):
    """Answers as a container server that trusts its callers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b'{"type": "sync", "metadata": {"auth": "trusted", "environment": {"server": "incus"}}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_the_connections_that_looking_opens_are_closed(
    toolcaddie: CommandLine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lxc"
    table = '[[source]]\ntype = "host"\ngroups = ["plugins"]\nplugins = ["lxc"]\n'
    settings(toolcaddie, f'{table}\n[source.plugin.lxc]\nsocket = "{path}"\n')
    with ThreadingUnixStreamServer(str(path), Answering) as server:
        server.block_on_close = False
        Thread(target=server.serve_forever, daemon=True).start()
        assert "works" in toolcaddie.ok("doctor")
        server.shutdown()
    gc.collect()
    assert "Unclosed" not in caplog.text
