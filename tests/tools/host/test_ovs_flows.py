"""Flows, through the runtime, with a real ovs-vswitchd, compared with `ovs-ofctl`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.tools.host.ovs_rig import BRIDGE, Machine, console
from toolcaddie import Principal
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.run import RunContext

pytestmark = pytest.mark.anyio

CONTEXT = RunContext(run_id="r", principal=Principal(), view=View(catalog=Catalog.of([])), model="m")


@pytest.mark.proves("R004-28")
async def test_a_flow_is_added_shown_with_its_counters_and_removed(switching: Machine) -> None:
    async with console(switching) as desk:
        text = "priority=100,tcp,nw_dst=10.0.0.1,actions=output:2"
        added = await desk.value("ovs_add_flow", bridge=BRIDGE, flow=text)
        assert added == {"added": f"table=0,{text}"}
        addresses = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800)"
        packet = f"{addresses},ipv4(src=10.0.0.9,dst=10.0.0.1,proto=6,tos=0,ttl=9,frag=no),tcp(src=1,dst=2)"
        switching.run(
            "ovs-appctl", "-t", f"{switching.folder}/{control(switching)}", "netdev-dummy/receive", "p1", packet
        )
        (shown,) = (await desk.value("ovs_dump_flows", bridge=BRIDGE))["flows"]
        assert (shown["flow"], shown["packets"]) == (f"table=0,{text}", 1)
        removed = await desk.value("ovs_del_flows", bridge=BRIDGE, match_str="tcp,nw_dst=10.0.0.1")
        assert removed["removed"] == 1
        assert switching.ofctl("dump-flows", BRIDGE, "--no-stats") == []


async def test_the_first_flow_of_a_new_bridge_is_shown_as_ovs_ofctl_shows_it(switching: Machine) -> None:
    switching.vsctl("add-br", "br1")
    async with console(switching) as desk:
        shown = (await desk.value("ovs_dump_flows", bridge="br1"))["flows"]
    assert [each["flow"] for each in shown] == ["table=0,priority=0,actions=NORMAL"]


async def test_what_is_not_known_in_a_flow_of_somebody_else_is_shown_as_unknown(switching: Machine) -> None:
    switching.ofctl("add-flow", BRIDGE, "ip,nw_frag=first,actions=move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],output:2")
    switching.ofctl("add-flow", BRIDGE, "table=2,priority=1,actions=write_actions(output:1)")
    async with console(switching) as desk:
        one, other = (each["flow"] for each in (await desk.value("ovs_dump_flows", bridge=BRIDGE))["flows"])
        text = await desk.failure("ovs_add_flow", bridge=BRIDGE, flow=one)
        assert "unknown" in text
    assert one.startswith("table=0,priority=32768,ip,unknown_field(0x0001:26=0x01")
    assert ",actions=unknown_action(65535=0x" in one
    assert one.endswith(",output:2")
    assert other.startswith("table=2,priority=1,actions=unknown_instruction(3=0x")


async def test_what_the_switch_refuses_is_a_failed_result_with_its_reason(switching: Machine) -> None:
    async with console(switching) as desk:
        text = await desk.failure("ovs_add_flow", bridge=BRIDGE, flow="actions=group:7")
    assert "the switch has refused it: there is no such group" in text
    assert switching.ofctl("dump-flows", BRIDGE, "--no-stats") == []


@pytest.mark.parametrize(
    ("selected", "left"),
    [
        ("tcp", ["udp"]),
        ("table=0", ["tcp,tp_dst=81"]),
        ("priority=5,tcp,tp_dst=80", ["tcp,tp_dst=81", "udp"]),
        ("priority=6,tcp,tp_dst=80", ["tcp,tp_dst=80", "tcp,tp_dst=81", "udp"]),
        ("cookie=0x10/0xf0", ["tcp,tp_dst=80", "tcp,tp_dst=81"]),
        ("cookie=0", ["udp"]),
        ("", []),
        ("  ", []),
    ],
)
async def test_flows_are_removed_as_the_match_says(switching: Machine, selected: str, left: list[str]) -> None:
    for flow in ("priority=5,tcp,tp_dst=80", "table=1,tcp,tp_dst=81", "cookie=0x12,udp"):
        switching.ofctl("add-flow", BRIDGE, f"{flow},actions=drop")
    async with console(switching) as desk:
        removed = await desk.value("ovs_del_flows", bridge=BRIDGE, match_str=selected)
    assert removed["removed"] == 3 - len(left)
    lines = " ".join(switching.ofctl("dump-flows", BRIDGE, "--no-stats"))
    assert [flow for flow in ("tcp,tp_dst=80", "tcp,tp_dst=81", "udp") if flow in lines] == left


@pytest.mark.parametrize(
    ("selected", "question"),
    [
        ("", "removes all flows of br0"),
        ("table=0", "removes all flows of br0 with table=0"),
        ("cookie=0/0", "removes all flows of br0"),
        ("cookie=0", "removes all flows of br0 with cookie=0x0/0xffffffffffffffff"),
        ("dl_src=00:00:00:00:00:01/00:00:00:00:00:00", "removes all flows of br0"),
    ],
)
async def test_removing_flows_whatever_their_packets_always_asks(
    switching: Machine, selected: str, question: str
) -> None:
    switching.ofctl("add-flow", BRIDGE, "priority=5,tcp,tp_dst=80,actions=drop")
    async with console(switching, policy=AllowAll()) as desk:
        desk.person.agrees = False
        assert (await desk.call("ovs_del_flows", bridge=BRIDGE, match_str=selected)).is_error
        (approval,) = desk.person.questions
    assert question in approval.reason
    assert approval.preview.endswith("Flows that it removes: 1\ntable=0,priority=5,tcp,tp_dst=80,actions=drop")
    assert len(switching.ofctl("dump-flows", BRIDGE, "--no-stats")) == 1


@pytest.mark.parametrize("selected", ["tcp,tp_dst=80", "priority=5,tcp,tp_dst=80"])
async def test_removing_flows_of_some_packets_asks_only_if_the_policy_does(switching: Machine, selected: str) -> None:
    switching.ofctl("add-flow", BRIDGE, "priority=5,tcp,tp_dst=80,actions=drop")
    async with console(switching, policy=AllowAll()) as desk:
        await desk.value("ovs_del_flows", bridge=BRIDGE, match_str=selected)
        assert desk.person.questions == []


@pytest.mark.parametrize(
    ("tool", "arguments", "effects"),
    [
        ("ovs_dump_flows", {}, ()),
        ("ovs_add_flow", {"flow": "actions=drop"}, ("ovs.add-flow br0",)),
        ("ovs_del_flows", {"match_str": "tcp"}, ("ovs.del-flow br0",)),
        ("ovs_del_flows", {}, ("ovs.del-flows br0", "ovs.del-flow br0")),
        ("ovs_add_bridge", {}, ("ovs.add-bridge br0",)),
        ("ovs_add_port", {"port": "p3"}, ("ovs.add-port br0/p3",)),
        ("ovs_del_port", {"port": "p1"}, ("ovs.del-port br0/p1",)),
        (
            "ovs_del_bridge",
            {},
            (
                *("ovs.del-bridge br0", "ovs.del-flows br0", "ovs.del-flow br0"),
                *("ovs.del-port br0/br0", "ovs.del-port br0/p1", "ovs.del-port br0/p2"),
            ),
        ),
    ],
)
async def test_each_change_names_its_effects(
    switching: Machine, tool: str, arguments: dict[str, str], effects: tuple[str, ...]
) -> None:
    async with console(switching) as desk:
        definition = next(each for each in desk.source.tools() if each.name == tool)
        judgement = await desk.source.assess(definition, {"bridge": BRIDGE, **arguments}, CONTEXT)
    assert judgement.effects == effects


async def test_a_switch_that_does_not_speak_openflow_1_3_is_named_with_the_remedy(switching: Machine) -> None:
    switching.vsctl("set", "bridge", BRIDGE, "protocols=OpenFlow10")
    async with console(switching) as desk:
        assert "add OpenFlow13 to the column protocols" in await desk.failure("ovs_dump_flows", bridge=BRIDGE)


async def test_a_bridge_with_very_many_flows_is_shown_in_part(switching: Machine, tmp_path: Path) -> None:
    path = tmp_path / "flows"
    path.write_text("\n".join(f"tcp,tp_dst={port},actions=output:1" for port in range(3_000)))
    switching.ofctl("add-flows", BRIDGE, str(path))
    async with console(switching) as desk:
        shown = await desk.value("ovs_dump_flows", bridge=BRIDGE)
    assert (len(shown["flows"]), shown["not_shown"]) == (500, 2_500)


async def test_a_hundred_readers_and_writers_at_once_each_get_their_own_answer(switching: Machine) -> None:
    switching.vsctl("add-br", "br1")
    async with console(switching) as desk:
        calls = [
            desk.value("ovs_add_flow", bridge=f"br{n % 2}", flow=f"priority={n},tcp,tp_dst={n},actions=output:1")
            for n in range(1, 101)
        ]
        added = await asyncio.gather(*calls)
        assert added == [{"added": f"table=0,priority={n},tcp,tp_dst={n},actions=output:1"} for n in range(1, 101)]
    assert len(switching.ofctl("dump-flows", BRIDGE, "--no-stats")) == 50


def control(switching: Machine) -> str:
    """Returns the name of the socket of the daemon."""
    return next(path.name for path in switching.folder.glob("ovs-vswitchd.*.ctl"))
