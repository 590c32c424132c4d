"""Texts of flows: what is read, what is refused with which reason, and that `ovs-ofctl` reads the same in them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.tools.host.ovs_flows import flows
from tests.tools.host.ovs_rig import BRIDGE, Machine, console
from tests.tools.host.plugin_properties import EXAMPLES
from toolcaddie.core.errors import RequestError
from toolcaddie.tools.host.ovs.flows import parsed_flow, parsed_selection

pytestmark = pytest.mark.anyio


def differences(switching: Machine, texts: list[str]) -> list[str]:
    """Returns the flows in which the bridge and these texts differ, as `ovs-ofctl` reads them."""
    path = switching.folder / "flows.txt"
    # In a file, dl_vlan=0xffff is a match that OpenFlow 1.3 cannot have; `ovs-ofctl` itself shows what it has so.
    path.write_text("\n".join(texts).replace("dl_vlan=0xffff", "vlan_tci=0x0000/0x1fff") + "\n")
    return switching.run("ovs-ofctl", "-O", "OpenFlow13", "diff-flows", BRIDGE, str(path), accepted=(0, 2)).splitlines()


def test_each_flow_that_is_added_is_what_ovs_ofctl_makes_of_its_text(switching: Machine) -> None:
    """What is shown is also read back as the same flow, here and by `ovs-ofctl`."""
    switching.vsctl("add-br", "br1")

    @settings(
        max_examples=EXAMPLES,
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to find a smaller example takes minutes
    )
    @given(st.lists(flows(), min_size=1, max_size=8))
    def check(texts: list[str]) -> None:
        switching.ofctl("del-flows", BRIDGE)
        switching.ofctl("del-flows", "br1")
        for text in texts:
            switching.ofctl("add-flow", "br1", text)
        asyncio.run(added(texts))

    async def added(texts: list[str]) -> None:
        async with console(switching) as desk:
            for text in texts:
                await desk.value("ovs_add_flow", bridge=BRIDGE, flow=text)
            shown, theirs = [
                [each["flow"] for each in (await desk.value("ovs_dump_flows", bridge=bridge))["flows"]]
                for bridge in (BRIDGE, "br1")
            ]
        latest = {parsed_flow(text).key: parsed_flow(text) for text in texts}
        assert sorted(shown) == sorted(map(str, latest.values()))
        assert shown == theirs
        assert [str(parsed_flow(text)) for text in shown] == shown
        assert differences(switching, shown) == []

    check()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo=1,actions=drop", "there is no field 'foo'; a match is made of arp,"),
        ("priority=1,tcp", "it has no actions"),
        ("actions=", "there is no action where one belongs"),
        ("actions=explode", "there is no action 'explode'; write one of output:PORT,"),
        ("actions=output:1,,2", "there is no action where one belongs"),
        ("actions=drop,output:1", "drop: it stands alone"),
        ("actions=output:p1", "'p1' is no port; write its number, which ovs_list_ports shows"),
        ("actions=output:70000", "'70000' is no port"),
        ("actions=goto_table:0", "goes to a later table only"),
        ("actions=goto_table:3,output:1", "it is the last action"),
        ("table=254,actions=drop", "no number from 0 to 253"),
        ("priority=65536,actions=drop", "no number from 0 to 65535"),
        ("priority=-1,actions=drop", "'priority=-1'"),
        ("priority=1,priority=2,actions=drop", "priority: it is given twice"),
        ("priority,actions=drop", "priority: it has no value"),
        ("tcp,udp,actions=drop", "a flow names one protocol"),
        ("tcp,nw_proto=6,actions=drop", "nw_proto: it is given twice"),
        ("ip,ip_src=1.2.3.4,nw_src=1.2.3.4,actions=drop", "nw_src: it is given twice"),
        ("tp_dst=80,actions=drop", "only packets of tcp or tcp6 have it"),
        ("nw_src=1.2.3.4,actions=drop", "only packets of ip have it"),
        ("arp,nw_proto=1,actions=drop", "only packets of ip or ipv6 have it"),
        ("dl_vlan_pcp=3,actions=drop", "only packets with a tag have it"),
        ("dl_vlan=4096,actions=drop", "no number from 0 to 4095"),
        ("tcp,nw_src=1.2.3,actions=drop", "no IPv4 address"),
        ("tcp,nw_src=1.2.3.4/33,actions=drop", "longer than the 32 bits"),
        ("ipv6,ipv6_src=fe80::1%eth0,actions=drop", "fe80::1%eth0"),
        ("dl_src=1:2:3,actions=drop", "no hardware address"),
        ("in_port=1/1,actions=drop", "this field takes no mask"),
        ("ip,nw_tos=3,actions=drop", "no multiple of 4"),
        ("actions=mod_nw_src:1.2.3.4", "only packets of ip have it"),
        ("actions=strip_vlan", "only packets with a tag have one"),
        ("actions=mod_vlan_vid:5", "only packets with a tag have it"),
        ("actions=set_field:1->in_port", "there is no field 'in_port' that can be set"),
        ("actions=set_field:1", "names no field"),
        ("actions=push_vlan:0x0800", "no type of a tag"),
        ("actions=learn(table=1)", "there is no action 'learn(table=1)'"),
        ("actions=resubmit(a,b)", "write resubmit(,TABLE)"),
        ("actions=output:1\nadd priority=1,actions=drop", "printable"),
        ("actions=output:1\0", "printable"),
        ("tcp,tp_dst=８０,actions=drop", "printable"),
        ("tcp;ls,actions=drop", "'tcp;ls'"),
        ("$(reboot),actions=drop", "'$(reboot)'"),
        ("actions=drop,actions=output:1", "there is no field 'actions'"),
        ("cookie=0x10000000000000000,actions=drop", "cookie"),
    ],
)
async def test_a_wrong_flow_is_refused_with_the_reason_and_nothing_is_sent(
    switching: Machine, text: str, problem: str
) -> None:
    async with console(switching) as desk:
        assert problem in await desk.failure("ovs_add_flow", bridge=BRIDGE, flow=text)
    assert switching.ofctl("dump-flows", BRIDGE, "--no-stats") == []


PIECES = st.lists(st.sampled_from(["tcp", "priority=1", ",", " ", "actions=", "drop", "=", "(", ")", "output:1"]))


@given(st.text(max_size=200) | PIECES.map("".join))
def test_any_text_is_a_flow_or_a_request_error(text: str) -> None:
    for read in (parsed_flow, parsed_selection):
        with suppress(RequestError):
            assert read(str(read(text))) == read(text)
