"""The plugin `network`, against the kernel, in network namespaces of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.netns import LINUX_ROOT, ip, isolated, neighbour
from tests.tools.host.plugin_properties import changing, check_properties, confirmed, made
from tests.tools.host.shelf import until
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.states.changing import Changing
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.states.network import network

pytestmark = [pytest.mark.anyio, LINUX_ROOT]

LEFT = {"kind": "veth", "peer": "right"}
PAIR: DesiredState = {"left": LEFT, "right": {"kind": "veth", "peer": "left"}}


@pytest.fixture(autouse=True)
def own_namespace() -> Iterator[None]:
    with isolated():
        yield


@pytest.fixture
def host() -> Changing:
    return changing(network())


# --- links --------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_bridge_with_a_port_and_an_address_is_made_and_taken_away_again(host: Changing) -> None:
    before = await host.query()
    desired = {**PAIR, "br0": {"kind": "bridge", "addresses": ["10.3.0.1/24", "fd03::1/64"], "mtu": 1400}}
    undo = await made(host, {**desired, "left": {"kind": "veth", "peer": "right", "master": "br0"}})
    assert "master br0" in ip("link", "show", "left")
    assert "mtu 1400" in ip("link", "show", "br0")
    assert "10.3.0.1/24" in ip("addr", "show", "br0")
    assert (await host.query("br*"))["br0"] == {
        "kind": "bridge",
        "up": True,
        "mtu": 1400,
        "addresses": ["10.3.0.1/24", "fd03::1/64"],
        "master": None,
    }
    await confirmed(host, undo)
    assert await host.query() == before


async def test_ipv6_addresses_stay_when_a_link_goes_down(host: Changing) -> None:
    await made(host, PAIR)
    await made(host, {"left": {"addresses": ["fd04::1/64", "10.4.0.1/24"]}})
    await made(host, {"left": {"up": False}})
    assert "fd04::1/64" in ip("addr", "show", "left")


async def test_addresses_of_one_network_are_exchanged_without_losing_one(host: Changing) -> None:
    await made(host, PAIR)
    await made(host, {"left": {"addresses": ["10.4.0.1/24", "10.4.0.2/24", "10.4.0.3/24"]}})
    await made(host, {"left": {"addresses": ["10.4.0.2/24", "10.4.0.3/24"]}})
    assert "10.4.0.2/24" in ip("addr", "show", "left")


@pytest.mark.parametrize("kind", ["dummy", "vlan"])
async def test_a_kind_that_the_kernel_lacks_fails_clearly_and_changes_nothing(host: Changing, kind: str) -> None:
    await made(host, PAIR)
    before = await host.query()
    details = {"parent": "left", "vlan": 7} if kind == "vlan" else {}
    diff = await host.difference({"extra": {"kind": kind, **details}})
    if _has_kind(kind):
        await confirmed(host, diff)
        assert kind in ip("-details", "link", "show", "extra")
        return
    with pytest.raises(
        HostError, match=f"create extra of the kind {kind}: Operation not supported.*Nothing is changed"
    ):
        await confirmed(host, diff)
    assert await host.query() == before


async def test_the_two_ends_of_a_pair_are_made_and_deleted_together(host: Changing) -> None:
    before = await host.query()
    with pytest.raises(HostError, match="left and right are the two ends of one pair"):
        await host.apply(await host.difference({"left": PAIR["left"]}))
    assert await host.query() == before
    await made(host, PAIR)
    with pytest.raises(HostError, match="the two ends of one pair"):
        await host.apply(await host.difference({"left": None}))
    await made(host, {"left": None, "right": None})
    assert await host.query() == before


async def test_a_bridge_in_use_is_not_deleted(host: Changing) -> None:
    await made(host, {**PAIR, "br0": {"kind": "bridge"}, "left": {"kind": "veth", "peer": "right", "master": "br0"}})
    with pytest.raises(HostError, match="left belongs to br0"):
        await host.apply(await host.difference({"br0": None}))
    await made(host, {"br0": None, "left": {"master": None}})
    assert "br0" not in await host.query()


def _has_kind(kind: str) -> bool:
    """Returns whether the kernel has links of this kind."""
    details = ["link", "left", "name", "probe", "type", kind, "id", "9"] if kind == "vlan" else ["probe", "type", kind]
    if subprocess.run(["ip", "link", "add", *details], capture_output=True, check=False).returncode != 0:
        return False
    ip("link", "del", "probe")
    return True


# --- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        ({"lo": None}, "a link of the kind loopback cannot be deleted"),
        ({"lo": {"up": False}}, "the loopback link stays as it is"),
        ({"lo": {"addresses": []}}, "127.0.0.1/8 stays"),
        ({"left": {"kind": "bridge"}}, "its kind cannot be changed"),
        ({"left": {"peer": "other"}}, "its peer cannot be changed"),
        ({"left": {"vlan": 7}}, "has no attribute 'vlan'"),
        ({"left": {"addresses": ["fe80::1/64"]}}, "multicast, unspecified or link-local"),
        ({"left": {"addresses": ["10.0.0.1/24; reboot"]}}, "is not an address"),
        ({"left": {"mtu": 600, "addresses": ["fd00::1/64"]}}, "mtu is at least 1280"),
        ({"new": {}}, "to create one, give a kind: bridge, dummy, veth, vlan"),
        ({"new": {"kind": "wireguard"}}, "to create one, give a kind"),
        ({"new": {"kind": "veth"}}, "give peer"),
        ({"new": {"kind": "veth", "peer": "-x"}}, "peer is the name of another link"),
        ({"a\nb": {"kind": "bridge"}}, "a link's name is"),
        ({"-all": {"kind": "bridge"}}, "a link's name is"),
        ({"../x": {"kind": "bridge"}}, "a link's name is"),
        ({"x" * 16: {"kind": "bridge"}}, "a link's name is"),
        ({"route default": {"interface": "left"}}, "a route is written as"),
        ({"route 10.0.0.1/8": {"interface": "left"}}, "a route is written as"),
        ({"route 10.0.0.0/8 metric": {"interface": "left"}}, "a route is written as"),
        ({"route 10.0.0.0/8": {"interface": "le\nft"}}, "interface is the name of a link"),
        ({"route 10.0.0.0/8": {"interface": "left", "via": "fd00::1"}}, "via is an IPv4 address"),
        ({"route 10.0.0.0/8": {"interface": "left", "mtu": 1400}}, "via, interface, source and onlink only"),
    ],
)
async def test_a_bad_name_or_value_is_refused(host: Changing, desired: DesiredState, reason: str) -> None:
    await made(host, PAIR)
    with pytest.raises(RequestError, match=reason):
        await host.difference(desired)


async def test_a_link_whose_peer_is_in_a_container_is_not_deleted(host: Changing) -> None:
    with neighbour():
        assert (await host.query())["near"]["peer"] is None
        with pytest.raises(RequestError, match="another network namespace"):
            await host.difference({"near": None})


# --- routes -------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R004-31")
async def test_routes_are_made_changed_and_deleted(host: Changing) -> None:
    await made(host, PAIR)
    await made(host, {"left": {"addresses": ["10.5.0.1/24", "fd05::1/64"]}})
    before = await host.query()
    undo = await made(
        host,
        {
            "route 0.0.0.0/0": {"via": "10.5.0.2", "interface": "left"},
            "route 10.9.0.0/16 metric 50": {"via": "10.5.0.3", "interface": "left"},
            "route 10.8.0.0/16": {"interface": "right"},
            "route ::/0": {"via": "fd05::2", "interface": "left"},
            "route fd09::/32 metric 7": {"interface": "right"},
        },
    )
    assert "default via 10.5.0.2 dev left" in ip("route", "show")
    assert "fd09::/32 dev right" in ip("-6", "route", "show")
    await made(host, {"route 0.0.0.0/0": {"via": "10.5.0.7"}})
    assert "default via 10.5.0.7 dev left" in ip("route", "show")
    await made(host, {"route 0.0.0.0/0": {"via": "10.5.0.2"}})
    await confirmed(host, undo)
    assert await host.query() == before


async def test_a_link_with_routes_goes_down_only_together_with_them(host: Changing) -> None:
    await made(host, PAIR)
    await made(host, {"left": {"addresses": ["10.5.0.1/24"]}})
    await made(host, {"route 0.0.0.0/0": {"via": "10.5.0.2", "interface": "left"}})
    before = await host.query()
    with pytest.raises(HostError, match=r"route 0\.0\.0\.0/0 needs the link left up"):
        await host.apply(await host.difference({"left": {"up": False}}))
    undo = await made(host, {"left": {"up": False}, "route 0.0.0.0/0": None})
    assert "default" not in ip("route", "show")
    await confirmed(host, undo)
    assert await host.query() == before


async def test_routes_survive_the_exchange_of_the_only_address(host: Changing) -> None:
    await made(host, PAIR)
    await made(host, {"left": {"addresses": ["10.5.0.1/24"]}})
    await made(host, {"route 0.0.0.0/0": {"via": "10.5.0.9", "interface": "left"}})
    await made(host, {"left": {"addresses": ["10.5.0.2/24"]}})
    assert "default via 10.5.0.9 dev left" in ip("route", "show")


async def test_routes_are_undone_with_all_that_they_have(host: Changing) -> None:
    await made(host, {**PAIR, "left": {**LEFT, "addresses": ["10.5.0.1/24", "10.5.0.7/24"]}})
    ip("route", "add", "default", "via", "172.31.1.1", "dev", "left", "onlink")
    ip("route", "add", "10.9.0.0/16", "via", "10.5.0.2", "dev", "left", "src", "10.5.0.7")
    before = ip("route", "show").replace(" proto static", "")
    state = await host.query()
    desired = {"left": {"up": False}, "route 0.0.0.0/0": None, "route 10.9.0.0/16": None}
    await confirmed(host, await made(host, desired))
    assert await host.query() == state
    assert ip("route", "show").replace(" proto static", "") == before


@pytest.mark.parametrize(
    "route",
    [
        ("10.9.0.0/16", "dev", "left", "table", "77"),
        ("10.9.0.0/16", "nexthop", "via", "10.5.0.2", "nexthop", "via", "10.5.0.3"),
    ],
)
async def test_a_link_whose_routes_could_not_be_made_again_stays_up(host: Changing, route: tuple[str, ...]) -> None:
    await made(host, {**PAIR, "left": {**LEFT, "addresses": ["10.5.0.1/24"]}})
    ip("route", "add", *route)
    before = ip("route", "show", "table", "all")
    losing: list[DesiredState] = [{"left": {"up": False}}, {"left": {"addresses": []}}, dict.fromkeys(PAIR)]
    for desired in losing:
        with pytest.raises(HostError, match=r"has a route to 10\.9\.0\.0 .* would be lost, so nothing was done"):
            await host.apply(await host.difference(desired))
        assert ip("route", "show", "table", "all") == before


async def test_a_route_with_what_cannot_be_set_again_stays(host: Changing) -> None:
    await made(host, {**PAIR, "left": {**LEFT, "addresses": ["10.5.0.1/24"]}})
    ip("route", "add", "10.9.0.0/16", "via", "10.5.0.2", "dev", "left", "mtu", "1300")
    changes: list[dict[str, Any] | None] = [None, {"via": "10.5.0.3"}, {"other": []}]
    for desired in changes:
        with pytest.raises(RequestError, match=r"metrics, which could not be set again|other cannot be set"):
            await host.difference({"route 10.9.0.0/16": desired})


async def test_a_link_on_which_another_one_depends_is_not_deleted(host: Changing) -> None:
    await made(host, PAIR)
    try:
        ip("link", "add", "link", "left", "name", "mv0", "type", "macvlan")
    except AssertionError as error:
        pytest.skip(f"this kernel has no macvlan: {error}")
    with pytest.raises(HostError, match="mv0 depends on left, and would be lost with it"):
        await host.apply(await host.difference(dict.fromkeys(PAIR)))
    assert "mv0" in ip("link")


async def test_an_address_with_another_end_is_no_part_of_the_state(host: Changing) -> None:
    await made(host, PAIR)
    ip("addr", "add", "10.8.0.1", "peer", "10.8.0.2/32", "dev", "left")
    await made(host, {"left": {"addresses": ["10.5.0.1/24"]}})
    await made(host, {"left": {"addresses": []}})
    assert "10.8.0.1 peer 10.8.0.2/32" in ip("addr", "show", "left")


# --- effects ------------------------------------------------------------------------------------------------------------


async def test_what_somebody_else_has_changed_meanwhile_is_not_undone(host: Changing) -> None:
    await made(host, PAIR)
    undone = changing(network(), confirm_seconds=0.2)
    await undone.apply(await undone.difference({"left": {"mtu": 1300}}))
    ip("addr", "add", "10.3.0.9/24", "dev", "left")
    await until(lambda: "mtu 1500" in ip("link", "show", "left"))
    await undone.close()
    assert "10.3.0.9/24" in ip("addr", "show", "left")


async def test_effects_name_the_interfaces_and_a_person_is_asked_before_a_link_goes_down(host: Changing) -> None:
    plugin = host.plugin
    await made(host, PAIR)
    (down,) = (await host.difference({"left": {"up": False}})).changes
    assert (plugin.effects(down), plugin.question(down)) == (("network.set left",), "takes left down")
    (new,) = (await host.difference({"br0": {"kind": "bridge"}})).changes
    assert (plugin.effects(new), plugin.question(new)) == (("network.add br0",), "")
    (route,) = (await host.difference({"route ::/0": {"interface": "left"}})).changes
    assert plugin.effects(route) == ("network.set left",)
    assert "default route" in plugin.question(route)


async def test_a_hundred_queries_at_once_do_not_mix_and_leave_nothing_open(host: Changing) -> None:
    await made(host, PAIR)
    files = len(os.listdir("/proc/self/fd"))
    states = await asyncio.gather(*(host.query() for _ in range(100)))
    assert all(state == states[0] for state in states)
    assert len(os.listdir("/proc/self/fd")) == files


# --- random states ------------------------------------------------------------------------------------------------------


@st.composite
def states(draw: st.DrawFn) -> DesiredState:
    """Draws all links and routes of a small world, so that they fit together: two bridges, two pairs, and routes over links that
    are up. Those that are not drawn must not exist."""
    desired: dict[str, Any] = dict.fromkeys([*BRIDGES, *ENDS, *DESTINATIONS])
    bridges = draw(st.lists(st.sampled_from(BRIDGES), unique=True))
    for name in bridges:
        desired[name] = {"kind": "bridge", "master": None, **draw(LINK)}
    for near, far in draw(st.lists(st.sampled_from(PAIRS), unique=True)):
        for name, peer in ((near, far), (far, near)):
            desired[name] = {
                "kind": "veth",
                "peer": peer,
                "master": draw(st.sampled_from([None, *bridges])),
                **draw(LINK),
            }
    links_up = [name for name, link in desired.items() if link is not None and link["up"]]
    for destination in draw(st.lists(st.sampled_from(DESTINATIONS), unique=True)) if links_up else []:
        desired[destination] = {"interface": draw(st.sampled_from(links_up)), "via": None}
    return desired


BRIDGES = ["br0", "br1"]
PAIRS = [("a0", "a1"), ("b0", "b1")]
ENDS = [name for pair in PAIRS for name in pair]
DESTINATIONS = ["route 10.8.0.0/16", "route 10.9.0.0/16 metric 5", "route fd08::/32", "route 0.0.0.0/0"]
ADDRESSES = st.lists(
    st.builds("10.{}.0.{}/24".format, st.integers(1, 3), st.integers(1, 9))
    | st.builds("fd0{}::{}/64".format, st.integers(1, 3), st.integers(1, 9)),
    max_size=4,
    unique=True,
)
LINK = st.fixed_dictionaries({"up": st.booleans(), "mtu": st.integers(1280, 9000), "addresses": ADDRESSES})


@pytest.mark.proves("R004-31")
@pytest.mark.timeout(3_600)
def test_random_states_are_reached_and_left_again() -> None:
    check_properties(network, states())


async def test_it_keeps_the_promises_of_all_state_plugins() -> None:
    await check_all(StateSubject(name="network", make=network, desired=PAIR), STATE)
