"""The plugin `firewall`, with the real `nft` and packets between two network namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.hosting_state import state_host
from tests.tools.host.netns import LINUX_ROOT, NFT, connection, isolated, neighbour, nft
from tests.tools.host.plugin_properties import changing, check_properties, confirmed, made
from tests.tools.host.shelf import Person, until
from toolcaddie import PracticeModel, Runtime
from toolcaddie.core.errors import ConfigError, HostError, RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.states import Changing
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host import host as host_source
from toolcaddie.tools.host.states.firewall import firewall
from toolcaddie.util.replacing import replace

pytestmark = [
    pytest.mark.anyio,
    LINUX_ROOT,
    NFT,
]

OTHER = "10.77.0.2"
SSH: DesiredState = {"ssh": {"chain": "input", "action": "accept", "protocol": "tcp", "port": 22}}


@pytest.fixture(autouse=True)
def own_namespace() -> Iterator[None]:
    with isolated():
        yield


@pytest.fixture
def host() -> Changing:
    return changing(firewall())


# --- packets ------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_closed_port_is_not_reached_and_an_undone_rule_opens_it_again(host: Changing) -> None:
    with neighbour(tcp=(8001, 8002)):
        assert (connection(OTHER, 8001), connection(OTHER, 8002)) == ("open", "open")
        closed = {"chain": "output", "action": "drop", "protocol": "tcp", "port": 8001}
        undo = await made(host, {"no-8001": closed})
        assert (connection(OTHER, 8001), connection(OTHER, 8002)) == ("silent", "open")
        await made(host, {"no-8001": {"action": "reject"}})
        assert connection(OTHER, 8001) == "refused"
        await made(host, {"no-8001": {"action": "drop"}})
        await confirmed(host, undo)
        assert connection(OTHER, 8001) == "open"


async def test_a_policy_drops_what_no_rule_accepts(host: Changing) -> None:
    with (
        neighbour(tcp=(8001,)) as other,
        socket.create_server(("10.77.0.1", 9001)),
        socket.create_server(("10.77.0.1", 9002)),
    ):
        assert (other.reaches(9001), other.reaches(9002)) == (True, True)
        await made(
            host,
            {
                "policy input": {"action": "drop"},
                "known": {"chain": "input", "action": "accept", "established": True},
                "service": {
                    "chain": "input",
                    "action": "accept",
                    "interface": "near",
                    "source": "10.77.0.0/24",
                    "protocol": "tcp",
                    "port": "9002-9010",
                },
            },
        )
        assert (other.reaches(9001), other.reaches(9002)) == (False, True)
        assert connection(OTHER, 8001) == "open", "the answer belongs to a connection that exists"


async def test_rules_hold_in_their_order(host: Changing) -> None:
    with neighbour(tcp=(8001,)):
        rule = {"chain": "output", "protocol": "tcp", "port": 8001}
        await made(host, {"a": {**rule, "order": 20, "action": "drop"}, "b": {**rule, "order": 10, "action": "accept"}})
        assert connection(OTHER, 8001) == "open"
        await made(host, {"b": {"order": 30}})
        assert connection(OTHER, 8001) == "silent"


# --- other programs -----------------------------------------------------------------------------------------------------


async def test_tables_of_other_programs_are_shown_and_stay_as_they_are(host: Changing) -> None:
    nft("add table ip others { chain input { type filter hook input priority 0; tcp dport 9 drop; }; }")
    before = nft("list", "table", "ip", "others")
    assert "table ip others" in await host.query()
    await made(host, {**SSH, "policy input": {"action": "drop"}})
    assert nft("list", "table", "ip", "others") == before
    with pytest.raises(RequestError, match="made by another program"):
        await host.difference({"table ip others": None})


async def test_rules_of_others_in_the_own_table_are_left_alone(host: Changing) -> None:
    await made(host, SSH)
    nft("add rule inet toolcaddie input tcp dport 7 counter drop")
    nft('add rule inet toolcaddie input tcp dport 8 counter drop comment "900 mine"')
    unknown = [name for name in await host.query() if name.startswith("unknown input ")]
    assert len(unknown) == 2, "this plugin makes no rules with counters"
    await made(host, {"web": {"chain": "input", "action": "accept", "protocol": "tcp", "port": 80}})
    listed = nft("list", "table", "inet", "toolcaddie")
    assert "tcp dport 7 counter" in listed
    assert "tcp dport 8 counter" in listed
    with pytest.raises(RequestError, match="made by another program"):
        await host.difference({unknown[0]: None})


async def test_a_rule_that_somebody_changes_meanwhile_is_not_overwritten(host: Changing) -> None:
    await made(host, SSH)
    diff = await host.difference({"ssh": None})
    nft("flush", "table", "inet", "toolcaddie")
    with pytest.raises(RequestError, match="the state has changed"):
        await host.apply(diff)


# --- what is refused ----------------------------------------------------------------------------------------------------

RULE: dict[str, Any] = {"chain": "input", "action": "drop"}


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        ({"x; flush ruleset": RULE}, "a rule's name is"),
        ({"a\nb": RULE}, "a rule's name is"),
        ({"-f": RULE}, "a rule's name is"),
        ({"input": RULE}, "no chain's name"),
        ({"x" * 64: RULE}, "a rule's name is"),
        ({"table ip filter": None}, "a rule's name is"),
        ({"new": {"action": "drop"}}, "to create it, give chain"),
        ({"new": {**RULE, "note": "hello"}}, "no attribute 'note'"),
        ({"new": {**RULE, "port": 22}}, "a port needs the protocol tcp or udp"),
        ({"new": {**RULE, "protocol": "tcp", "port": 0}}, "between 1 and 65535"),
        ({"new": {**RULE, "protocol": "tcp", "port": "90-80"}}, "not a port or a range"),
        ({"new": {**RULE, "protocol": "tcp", "port": "22 accept"}}, "not a port or a range"),
        ({"new": {**RULE, "source": "example.org"}}, "names are not resolved"),
        ({"new": {**RULE, "source": "10.0.0.1/8"}}, "not an address or a network"),
        ({"new": {**RULE, "source": "10.0.0.1", "destination": "::1"}}, "both IPv4 or both IPv6"),
        ({"new": {**RULE, "interface": "eth*"}}, "interface is the name of a link"),
        ({"policy input": None}, "never deleted"),
        ({"policy input": {"action": "reject"}}, "accept or drop"),
        ({"policy other": {"action": "drop"}}, "the policies are"),
    ],
)
async def test_a_bad_name_or_value_is_refused(host: Changing, desired: DesiredState, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        await host.difference(desired)


@pytest.mark.parametrize("network", ["::ffff:1.2.3.4", "::1.2.3.4", "::ffff:1.2.3.0/120", "::", "::ffff:0:0/96"])
async def test_a_network_that_nft_writes_in_another_way_is_the_same(host: Changing, network: str) -> None:
    undo = await made(host, {"new": {**RULE, "source": network}})
    assert not (await host.difference({"new": {**RULE, "source": network}})).effective
    await confirmed(host, undo)
    assert "drop" not in nft("list", "table", "inet", "toolcaddie")


@pytest.mark.parametrize(("attribute", "value"), [("order", 100_000), ("protocol", {"range": [0, 255]}), ("port", 7.5)])
async def test_a_value_that_a_model_writes_into_a_difference_is_judged_as_one_that_it_desires(
    host: Changing, attribute: str, value: Any
) -> None:
    diff = await host.difference({"new": {**RULE, "protocol": "tcp"}})
    (change,) = diff.changes
    assert change.after is not None
    forged = replace(diff, changes=(replace(change, after={**change.after, attribute: value}),))
    with pytest.raises(RequestError, match=attribute):
        await host.apply(forged)
    assert nft("list", "ruleset") == ""


async def test_a_program_that_is_missing_or_says_nonsense_fails_clearly() -> None:
    with pytest.raises(ConfigError, match="not an absolute path"):
        firewall(program="nft")
    with pytest.raises(HostError, match=r"/nowhere/nft cannot be started: .*install nftables"):
        await firewall(program="/nowhere/nft").query()
    with pytest.raises(HostError, match="not answered with JSON"):
        await firewall(program="/usr/bin/true").query()
    (back_end,) = await firewall(program="/nowhere/nft").back_ends()
    assert not back_end.present
    (real,) = await firewall().back_ends()
    assert real.present, real


async def test_a_program_that_is_killed_is_said_to_be(tmp_path: Path) -> None:
    program = tmp_path / "nft"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o700)
    with pytest.raises(HostError, match="nft was ended by signal 9"):
        await firewall(program=str(program)).query()


def test_without_permission_the_reason_is_said() -> None:
    program = """
import asyncio
from toolcaddie.tools.host.states.firewall import firewall
for back_end in asyncio.run(firewall().back_ends()):
    print(back_end.present, back_end.detail)
"""
    command = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", sys.executable, "-c", program]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert completed.stdout.startswith("False"), completed.stderr
    assert "needs root or CAP_NET_ADMIN" in completed.stdout


async def test_effects_name_the_rule_or_the_chain_and_a_dropping_policy_is_always_asked_about(host: Changing) -> None:
    diff = await host.difference({**SSH, "policy input": {"action": "drop"}})
    policy, ssh = diff.changes
    assert host.plugin.effects(policy) == ("firewall.set input",)
    assert host.plugin.effects(ssh) == ("firewall.set ssh",)
    assert "drops all packets that no rule accepts" in host.plugin.question(policy)
    assert not host.plugin.question(ssh)


async def test_a_transaction_that_fails_in_one_place_changes_nothing(host: Changing) -> None:
    nft("add table inet toolcaddie { chain forward { type filter hook input priority 5; }; }")
    before = json.loads(nft("-j", "list", "ruleset"))
    both = {"bad": {"chain": "forward", "action": "drop"}, "good": {"chain": "input", "action": "drop"}}
    with pytest.raises(HostError, match="Nothing is changed"):
        await host.apply(await host.difference(both))
    assert json.loads(nft("-j", "list", "ruleset")) == before


async def test_fifty_queries_at_once_do_not_mix_and_leave_nothing_open(host: Changing) -> None:
    await made(host, SSH)
    files = len(os.listdir("/proc/self/fd"))
    states = await asyncio.gather(*(host.query() for _ in range(50)))
    assert all(state == states[0] for state in states)
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.proves("R004-29", "R004-31")
async def test_a_port_is_closed_confirmed_and_opened_again_by_the_tools() -> None:
    registry = Registry()
    registry.add("state", "firewall", firewall)
    source = host_source(
        groups=("plugins",), plugins=("firewall",), parts=Parts(store=MemoryStore()), registry=registry
    )
    closed = {"no-8001": {"chain": "output", "action": "drop", "protocol": "tcp", "port": 8001}}
    with neighbour(tcp=(8001,)):
        async with Runtime(provider=PracticeModel(), sources=[source], approver=Person()) as runtime:
            diff = (await runtime.call("plugin_firewall_diff", {"desired_state": closed})).structured
            dry = await runtime.call("plugin_firewall_apply", {"diff": diff})
            assert (dry.structured["applied"], connection(OTHER, 8001)) == (False, "open")
            applied = await runtime.call("plugin_firewall_apply", {"diff": diff, "dry_run": False})
            assert not applied.is_error, applied.text
            assert connection(OTHER, 8001) == "silent"
            again = await runtime.call("plugin_firewall_apply", {"diff": diff, "dry_run": False})
            assert again.structured["confirmed"]
            undo = applied.structured["undo"]
            assert (await runtime.call("plugin_firewall_apply", {"diff": undo, "dry_run": False})).structured["applied"]
            assert connection(OTHER, 8001) == "open"


async def test_a_change_by_the_tools_that_nobody_confirms_is_undone() -> None:
    async with state_host("firewall", firewall, {}, confirm_seconds=0.2) as host:
        before = await host.state()
        applied = await host.apply(SSH)
        assert applied.success, applied.text
        assert "tcp dport 22" in nft("list", "ruleset")
        await until(lambda: "tcp dport 22" not in nft("list", "ruleset"))
        assert await host.state() == before


# --- random states ------------------------------------------------------------------------------------------------------

NETWORKS = (
    st.sampled_from(["10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "192.168.0.0/31"]),
    st.sampled_from(["fd00::/8", "::1/128", "::/0", "2001:db8::/127", "::ffff:10.1.2.0/120", "::1.2.3.4/128"]),
)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    protocol = draw(st.sampled_from(["any", "tcp", "udp", "icmp"]))
    bounds = draw(st.tuples(st.integers(1, 65_534), st.integers(1, 65_535)).filter(lambda pair: pair[0] < pair[1]))
    port = st.sampled_from([None, bounds[0], f"{bounds[0]}-{bounds[1]}"]) if protocol in ("tcp", "udp") else st.none()
    networks = draw(st.sampled_from(NETWORKS))
    return {
        "chain": draw(st.sampled_from(["input", "forward", "output"])),
        "order": draw(st.integers(0, 9999)),
        "interface": draw(st.sampled_from([None, "lo", "eth0", "any"])),
        "established": draw(st.booleans()),
        "source": draw(st.none() | networks),
        "destination": draw(st.none() | networks),
        "protocol": protocol,
        "port": draw(port),
        "action": draw(st.sampled_from(["accept", "drop", "reject"])),
    }


POLICIES = st.fixed_dictionaries({"action": st.sampled_from(["accept", "drop"])})
STATES = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.none() | rules() for name in ("a", "b", "c", "10", "x.y_z-1")},
        **{f"policy {chain}": POLICIES for chain in ("input", "forward", "output")},
    },
)


@pytest.mark.proves("R004-31")
@pytest.mark.timeout(3_600)
def test_random_rules_are_reached_and_left_again() -> None:
    check_properties(firewall, STATES)


async def test_it_keeps_the_promises_of_all_state_plugins() -> None:
    await check_all(StateSubject(name="firewall", make=firewall, desired=SSH), STATE)
