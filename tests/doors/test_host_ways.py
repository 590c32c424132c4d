"""A flow of a real Open vSwitch is added by a tool, by a plugin and by a command: the records name the same effect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.doors.commandline import CommandLine
from tests.doors.host_callers import executing, value
from tests.tools.host.ovs_rig import Machine, running_machine
from toolcaddie.testing import ScriptedUpstream, say

EFFECT = "ovs.add-flow br0"
TARGET = "br0/table=0,priority=7,tcp,tp_dst=80"
SETTINGS = """

[sandbox]
type = "plain"

[[source]]
type = "host"
groups = ["shell", "ovs", "plugins"]
plugins = ["openflow"]

[source.shell]
programs = ["ovs-ofctl"]

[source.ovs]
database = "{database}"
folder = "{folder}"
"""


@pytest.fixture
def ovs() -> Iterator[Machine]:
    with running_machine() as machine:
        machine.vsctl("add-br", "br0")
        machine.ofctl("del-flows", "br0")
        yield machine


@pytest.fixture
def home(toolcaddie: CommandLine, monkeypatch: pytest.MonkeyPatch, ovs: Machine) -> CommandLine:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    settings = SETTINGS.format(database=ovs.database, folder=ovs.folder)
    (toolcaddie.home / "toolcaddie.toml").write_text(settings)
    return toolcaddie


def by_plugin(body: Any) -> Any:
    """Applies the difference that the result before it contains."""
    return executing("plugin_openflow_apply", diff=value(body["messages"][-1]["content"]), dry_run=False)


WAYS = {
    "ovs_add_flow": [executing("ovs_add_flow", bridge="br0", flow="priority=7,tcp,tp_dst=80,actions=drop")],
    "plugin_openflow_apply": [
        executing("plugin_openflow_diff", desired_state={TARGET: {"actions": "drop"}}),
        by_plugin,
    ],
    "shell_execute": [
        executing("shell_execute", command="ovs-ofctl", args=["add-flow", "br0", "tcp,tp_dst=80,actions=drop"])
    ],
}


@pytest.mark.parametrize("name", WAYS)
def test_the_records_name_the_same_effect_whichever_way_it_is_reached(
    home: CommandLine, ovs: Machine, name: str
) -> None:
    with ScriptedUpstream([*WAYS[name], say("Done.")]) as upstream:
        words = ("--upstream", upstream.base_url, "--model", "gpt-test", "--preset", "compact", "--approve", "run")
        home.ok("run", "drop what comes to port 80", *words)
    shown = home.json("runs", "show", "last")["calls"][-1]
    assert (shown["name"], shown["effects"]) == (name, [EFFECT])
    assert home.json("why", name, "--run", "last")["effects"] == [EFFECT]
    assert f"({EFFECT})" in " ".join(home.ok("trail", "last").split())
    if name != "shell_execute":  # the program has no path to the sockets of this machine
        assert [line for line in ovs.ofctl("dump-flows", "br0") if "tp_dst=80" in line]


@pytest.mark.parametrize("name", WAYS)
def test_a_rule_about_an_effect_holds_whichever_way_it_is_reached(home: CommandLine, ovs: Machine, name: str) -> None:
    with (home.home / "toolcaddie.toml").open("a") as file:
        file.write(f"\n[policy]\ndeny_effects = {json.dumps([EFFECT])}\n")
    with ScriptedUpstream([*WAYS[name], say("Done.")]) as upstream:
        words = ("--upstream", upstream.base_url, "--model", "gpt-test", "--preset", "compact", "--approve", "run")
        home.ok("run", "drop what comes to port 80", *words)
    assert home.json("runs", "show", "last")["calls"][-1]["state"] == "refused"
    assert ovs.ofctl("dump-flows", "br0")[1:] == []


def test_a_tool_that_neither_the_run_nor_the_settings_name_is_not_explained(home: CommandLine) -> None:
    with ScriptedUpstream([say("Done.")]) as upstream:
        home.ok("run", "go", "--upstream", upstream.base_url, "--model", "gpt-test", "--preset", "compact")
    refusal = home.refused("why", "ovs_add_flows", "--run", "last")
    assert "neither the run nor the catalog has a tool 'ovs_add_flows'; did you mean ovs_add_flow" in refusal
