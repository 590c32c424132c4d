"""The state plugin `openflow`, with a real ovs-vswitchd."""

from __future__ import annotations

import msgspec
import pytest

from tests.tools.host.ovs_flows import BRIDGES, states
from tests.tools.host.ovs_rig import Machine, console
from tests.tools.host.plugin_properties import check_properties
from toolcaddie.core.states import Change
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.ovs import openflow
from toolcaddie.tools.host.ovs.plugin import OpenFlowPlugin

pytestmark = pytest.mark.anyio

WEB = "br0/table=0,priority=100,tcp,tp_dst=80"


@pytest.fixture
def machine(ovs: Machine) -> Machine:
    for bridge in BRIDGES:
        ovs.vsctl("add-br", bridge)
    return ovs


def plugin_of(machine: Machine) -> OpenFlowPlugin:
    return openflow(database=machine.database, folder=str(machine.folder))


async def test_the_plugin_keeps_the_contract_of_state_plugins(machine: Machine) -> None:
    machine.ofctl("add-flow", "br0", "table=2,ip,nw_frag=first,actions=write_actions(output:1)")
    desired = {WEB: {"actions": "output:1", "idle_timeout": 900}, "br0/table=0,priority=0": None}
    await check_all(StateSubject(name="openflow", make=lambda: plugin_of(machine), desired=desired), STATE)


def test_random_states_are_reached_and_left_again(machine: Machine) -> None:
    check_properties(lambda: plugin_of(machine), states())


async def test_a_change_has_the_effects_of_the_tools_and_waits_for_its_confirmation(machine: Machine) -> None:
    async with console(machine) as desk:
        desired = {WEB: {"actions": "mod_dl_src:0:0:0:0:0:1,2"}, "br1/table=0,priority=0": None}
        diff = await desk.value("plugin_openflow_diff", desired_state=desired)
        after = {change["target"]: change["after"] for change in diff["changes"]}
        assert after[WEB]["actions"] == "set_field:00:00:00:00:00:01->eth_src,output:2"
        applied = await desk.value("plugin_openflow_apply", diff=diff, dry_run=False)
        assert applied["confirm_within_seconds"] > 0
        assert (await desk.value("plugin_openflow_apply", diff=diff, dry_run=False))["confirmed"] is True
    assert "tcp,tp_dst=80" in machine.ofctl("dump-flows", "br0", "--no-stats")[0]
    assert machine.ofctl("dump-flows", "br1", "--no-stats") == []
    plugin = plugin_of(machine)
    effects = [plugin.effects(change) for change in msgspec.convert(diff["changes"], list[Change])]
    assert effects == [("ovs.add-flow br0",), ("ovs.del-flow br1",)]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("br0/tcp,tp_dst=80,priority=100", f"write it as {WEB}"),
        (
            "br0/table=0,priority=100,tcp,nw_dst=10.0.0.1/8",
            "write it as br0/table=0,priority=100,tcp,nw_dst=10.0.0.0/8",
        ),
        ("br0/table=0,priority=100,tcp,tp_dst=80,cookie=0x1", f"write it as {WEB}"),
        ("br0/table=0,priority=100,actions=output:1", "the name of a flow ends with its match"),
        ("table=0,priority=100", "write BRIDGE/MATCH"),
        ("../br0/table=0,priority=100", "bridge '..'"),
        ("br0/table=0,priority=100,foo=1", "there is no field 'foo'"),
        ("br0/table=0,priority=1\n", "printable"),
    ],
)
async def test_a_name_that_is_not_the_one_of_a_flow_is_refused_with_the_right_one(
    machine: Machine, name: str, problem: str
) -> None:
    async with console(machine) as desk:
        text = await desk.failure("plugin_openflow_diff", desired_state={name: {"actions": "drop"}})
    assert problem in text


async def test_a_flow_with_actions_that_are_not_known_is_shown_and_not_changed(machine: Machine) -> None:
    machine.ofctl("add-flow", "br0", "table=2,priority=7,actions=write_actions(output:1)")
    name = "br0/table=2,priority=7"
    async with console(machine) as desk:
        state = (await desk.value("plugin_openflow_query", filter=name))["state"]
        assert state[name]["actions"].startswith("unknown_instruction(3=0x")
        for wanted in (None, {"actions": "drop"}):
            text = await desk.failure("plugin_openflow_diff", desired_state={name: wanted})
            assert "its change could not be undone" in text
        same = await desk.value("plugin_openflow_diff", desired_state=state)
        assert [change["action"] for change in same["changes"]] == ["no-op"]


async def test_a_change_of_a_bridge_that_does_not_exist_fails_and_the_others_are_undone(machine: Machine) -> None:
    async with console(machine) as desk:
        before = await desk.value("plugin_openflow_query")
        desired = {WEB: {"actions": "drop"}, "br9/table=0,priority=1": {"actions": "drop"}}
        diff = await desk.value("plugin_openflow_diff", desired_state=desired)
        text = await desk.failure("plugin_openflow_apply", diff=diff, dry_run=False)
        assert "there is no bridge br9" in text
        assert await desk.value("plugin_openflow_query") == before
