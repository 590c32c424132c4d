"""The group `shell` of the source `host`: what runs, what is asked about, and the effects of commands."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.command_rig import sandbox_of
from tests.tools.host.hosting import host_runtime, host_source, judged
from toolcaddie.core.assessment import Assessment
from toolcaddie.core.errors import ConfigError
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.host.shell.effects import command_effects
from toolcaddie.tools.host.shell.settings import PROGRAMS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="commands are run on Linux only"),
]

MORE = (*PROGRAMS, "nft", "ovs-vsctl", "ovs-ofctl", "mount", "useradd")


@asynccontextmanager
async def opened(folder: Path, kind: str, **settings: Any) -> AsyncIterator[Runtime]:
    box = sandbox_of(kind)
    table = {"workdir": str(folder / "work"), **settings}
    try:
        async with host_runtime({"groups": ["shell"], "shell": table}, Parts(sandbox=lambda: box)) as made:
            yield made
    finally:
        await box.close()


async def judgement(folder: Path, kind: str, command: str, *args: str) -> Assessment:
    box = sandbox_of(kind)
    settings = {"groups": ["shell"], "shell": {"workdir": str(folder / "work"), "programs": MORE}}
    source = host_source(settings, Parts(sandbox=lambda: box))
    try:
        return await judged(source, "shell_execute", {"command": command, "args": list(args)})
    finally:
        await box.close()


@pytest.mark.proves("R004-25")
@pytest.mark.parametrize("kind", ["plain", "wall"])
async def test_a_program_gets_its_arguments_as_they_are(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path, kind) as made:
        arguments = {"command": "echo", "args": ["a  b", "$(id)", "; touch x", "*", "'"]}
        result = await made.call("shell_execute", arguments)
    assert result.structured["stdout"] == "a  b $(id) ; touch x * '\n"
    assert not any((tmp_path / "work").iterdir())


@pytest.mark.proves("R004-25")
async def test_a_program_that_is_not_in_the_list_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, "plain") as made:
        for command in ("sh", "/bin/ls", "../ls", "ls;id", "", "bash -c ls"):
            result = await made.call("shell_execute", {"command": command})
            assert (result.success, "is no program of the list" in result.text) == (False, True), command
    assert len(PROGRAMS) == 41


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("systemctl start nginx", "command is 'systemctl' alone, and the other words are args"),
        ("/usr/bin/ls", "command is 'ls' alone"),
        ("reboot now", "cargo, cat, curl, date"),
    ],
)
async def test_a_whole_line_or_a_path_is_refused_with_what_to_write(tmp_path: Path, command: str, advice: str) -> None:
    async with opened(tmp_path, "plain") as made:
        result = await made.call("shell_execute", {"command": command})
    assert advice in result.text


@pytest.mark.proves("R004-25")
async def test_a_command_is_killed_after_its_time(tmp_path: Path) -> None:
    async with opened(tmp_path, "plain", programs=["sleep"]) as made:
        result = await made.call("shell_execute", {"command": "sleep", "args": ["60"], "timeout_secs": 1})
    assert (result.error, "killed after 1 seconds" in result.text) == ("timeout", True)


async def test_a_program_with_a_folder_in_the_settings_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shell\.programs: '/bin/ls' is no name of a program"):
        host_source({"groups": ["shell"], "shell": {"programs": ["/bin/ls"], "workdir": str(tmp_path / "work")}})


async def test_commands_that_destroy_the_machine_are_refused_in_words(tmp_path: Path) -> None:
    assert "always refused" in (await judgement(tmp_path, "plain", "find", "/", "-delete")).refusal


async def test_in_the_wall_no_service_of_the_machine_is_reached_and_the_result_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, "wall") as made:
        result = await made.call("shell_execute", {"command": "systemctl", "args": ["start", "nginx"]})
        assert (result.success, result.text.endswith("use the tools that are made for them.")) == (False, True)
        links = await made.call(
            "shell_execute", {"command": "ls", "args": ["/sys/class/net", "/run/dbus", "/run/systemd"]}
        )
        assert "eth" not in links.structured["stdout"]
        assert not links.success


@pytest.mark.parametrize(
    ("line", "effects"),
    [
        ("systemctl start nginx", ["systemd.start nginx.service"]),
        ("systemctl --no-block stop a.socket b", ["systemd.stop a.socket", "systemd.stop b.service"]),
        ("systemctl -q enable --now nginx", ["systemd.enable nginx.service", "systemd.start nginx.service"]),
        ("systemctl reload-or-restart nginx", ["systemd.reload nginx.service", "systemd.restart nginx.service"]),
        ("systemctl daemon-reload", ["systemd.daemon-reload *"]),
        ("ovs-vsctl --may-exist add-br br0 -- add-port br0 eth1", ["ovs.add-bridge br0", "ovs.add-port br0/eth1"]),
        ("ovs-vsctl -t 5 --if-exists del-port br0 eth1", ["ovs.del-port br0/eth1"]),
        ("ovs-ofctl add-flow br0 priority=1,actions=drop", ["ovs.add-flow br0"]),
        ("ovs-ofctl del-flows br0 in_port=1", ["ovs.del-flow br0"]),
        ("ip link set eth0 down", ["network.set eth0"]),
        ("ip -4 addr add 10.0.0.1/24 dev eth0", ["network.set eth0"]),
        ("ip link add veth0 type veth peer name veth1", ["network.add veth0", "network.add veth1"]),
        ("ip link add link eth0 name eth0.5 type vlan id 5", ["network.add eth0.5"]),
        ("ip link delete dev br0", ["network.delete br0"]),
        ("ip route add 10.1.0.0/16 via 10.0.0.2 dev eth0", ["network.set eth0"]),
        ("nft add rule inet filter input tcp dport 22 accept", ["firewall.set input"]),
        ("nft delete rule ip filter output handle 5", ["firewall.set output"]),
    ],
)
async def test_a_command_has_the_effect_of_the_tool_that_does_the_same(
    tmp_path: Path, line: str, effects: Sequence[str]
) -> None:
    for kind in ("plain", "wall"):
        command, *args = line.split()
        found = await judgement(tmp_path, kind, command, *args)
        assert (list(found.effects), found.question, found.annotations) == (effects, "", None)
        assert line in found.preview


@pytest.mark.parametrize(
    "line",
    [
        "systemctl mask nginx",
        "systemctl -H other start nginx",
        "systemctl start nginx*",
        "systemctl start /etc/systemd/system/x.service",
        "systemctl --root=/ enable nginx",
        "systemctl start",
        "ovs-vsctl del-port eth1",
        "ovs-vsctl add-br br0 -- set bridge br0 fail_mode=secure",
        "ovs-vsctl --db=tcp:10.0.0.1:6640 add-br br0",
        "ovs-ofctl add-flow tcp:10.0.0.1:6633 actions=drop",
        "ovs-ofctl del-flows br0",
        "ovs-ofctl del-flows br0 table=255",
        "ovs-ofctl del-flows br0 cookie=0/0",
        "ovs-ofctl del-flows br0 dl_src=00:00:00:00:00:00/00:00:00:00:00:00",
        "ovs-vsctl del-br br0",
        "systemctl start suspend.target",
        "systemctl restart runlevel6.target",
        "ip link add a type veth peer mtu 1400 name b",
        "ip link set up eth0",
        "ip link set m eth0",
        "ip link set mtu 1400 dev eth0",
        "ip link set eth0 name eth1",
        "ip link set group 0 down",
        "ip netns exec other ip link set eth0 down",
        "ip -n other link set eth0 down",
        "ip -batch commands",
        "ip route del default",
        "ip route add 10.1.0.0/16 dev eth0 oif eth1",
        "ip route flush dev eth0 oif eth1",
        "ip route add 10.1.0.0/16 dev eth0 nexthop via 10.0.0.2",
        "ip route add 10.1.0.0/16 dev eth0 nhid 5",
        "nft flush ruleset",
        "nft -f rules",
        "nft add rule inet filter input accept ; flush ruleset",
        "mount /dev/sda1 /mnt",
        "useradd mallory",
    ],
)
async def test_a_command_whose_effect_cannot_be_read_is_asked_about(tmp_path: Path, line: str) -> None:
    for kind in ("plain", "wall"):
        command, *args = line.split()
        assert (await judgement(tmp_path, kind, command, *args)).question, kind


async def test_reading_is_not_asked_about_behind_the_wall(tmp_path: Path) -> None:
    for line in ("ls -l", "systemctl status nginx", "ip addr show", "df", "grep -r x ."):
        command, *args = line.split()
        found = await judgement(tmp_path, "wall", command, *args)
        assert (found.annotations and found.annotations.read_only, found.question, found.effects) == (True, "", ())


async def test_without_a_wall_programs_that_may_do_anything_are_always_asked_about(tmp_path: Path) -> None:
    for line in ("python3 x.py", "find . -exec systemctl stop x ;", "git pull", "npm install", "curl example.com"):
        command, *args = line.split()
        found = await judgement(tmp_path, "plain", command, *args)
        assert "cannot be read" in found.question, line
        assert (await judgement(tmp_path, "wall", command, *args)).question == "", line
    assert (await judgement(tmp_path, "plain", "ls")).question == ""


async def test_one_rule_about_an_effect_holds_for_commands_too(tmp_path: Path) -> None:
    box = sandbox_of("wall")
    rules = {"never_ask": ["shell_execute"], "deny_effects": ["systemd.stop none.service"]}
    policy = Registry().make("policy", "cedar", rules, Parts())
    source = host_source(
        {"groups": ["shell"], "shell": {"workdir": str(tmp_path / "work")}}, Parts(sandbox=lambda: box)
    )
    texts: dict[str, str] = {}
    async with Runtime(provider=ScriptedProvider([]), sources=[source], policy=policy) as made:
        for line in (
            "stop none",
            "-q stop other none.service",
            "--now disable none",
            "stop other",
            "stop non*",
            "kill none",
        ):
            result = await made.call("shell_execute", {"command": "systemctl", "args": line.split()})
            texts[line] = "ran" if "Exit code" in result.text else str(result.error)
    await box.close()
    assert texts == {
        "stop none": "denied",
        "-q stop other none.service": "denied",
        "--now disable none": "denied",
        "stop other": "ran",
        "stop non*": "denied",  # nobody is there to be asked
        "kill none": "denied",
    }


PIECES = st.sampled_from(
    (
        *(
            "link",
            "addr",
            "set",
            "add",
            "del",
            "dev",
            "name",
            "type",
            "peer",
            "up",
            "eth0",
            "br0",
            "start",
            "stop",
            "enable",
        ),
        *(
            "--now",
            "--",
            "-",
            "-q",
            "add-br",
            "add-port",
            "del-flows",
            "add-flow",
            "rule",
            "chain",
            "inet",
            "filter",
            "input",
        ),
        *(
            "",
            " ",
            "\n",
            "a b",
            "a\nsystemd.stop sshd.service",
            "../x",
            "-rf",
            "*",
            ";",
            "{",
            "}",
            "é",
            "\u202e",
            "x" * 300,
        ),
    )
)


@given(
    st.sampled_from(["systemctl", "ovs-vsctl", "ovs-ofctl", "ip", "nft"]),
    st.lists(PIECES | st.text(max_size=8), max_size=8),
)
def test_whatever_the_arguments_are_an_effect_is_one_kind_and_one_plain_name(
    program: str, arguments: list[str]
) -> None:
    found = command_effects(program, arguments, only_reads=False)
    assert found is not None
    for effect in found.effects:
        assert re.fullmatch(r"(systemd|ovs|network|firewall)\.[a-z-]+ (\*|[A-Za-z0-9_.:@/\\-]+)", effect), effect
    assert "\n" not in found.question
