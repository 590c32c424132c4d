"""The plugin `privacy`, with the real `nft` and packets between two network namespaces."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.tools.host.hosting_state import state_host
from tests.tools.host.netns import LINUX_ROOT, NFT, connection, ip, isolated, neighbour, nft
from tests.tools.host.plugin_properties import changing, check_properties, confirmed, made
from tests.tools.host.shelf import until
from toolcaddie.core.errors import RequestError
from toolcaddie.core.states import DesiredState
from toolcaddie.states import Changing
from toolcaddie.testing.part_contracts import STATE, StateSubject, check_all
from toolcaddie.tools.host.states.privacy import privacy

pytestmark = [
    pytest.mark.anyio,
    LINUX_ROOT,
    NFT,
]

RESOLVER, OTHER = "10.77.0.2", "10.77.0.3"
PROFILE: DesiredState = {
    "profile": {"resolvers": [RESOLVER], "allow": [{"host": "10.77.0.2/32", "protocol": "tcp", "port": 8001}]}
}


@pytest.fixture(autouse=True)
def own_namespace() -> Iterator[None]:
    with isolated():
        yield


@pytest.fixture
def host() -> Changing:
    return changing(privacy())


def datagram(address: str, port: int) -> bool:
    """Sends a UDP packet. Returns False if the kernel drops it at once."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"question", (address, port))
        except PermissionError:
            return False
    return True


# --- packets ------------------------------------------------------------------------------------------------------------


@pytest.mark.proves("R004-29", "R004-31")
async def test_only_listed_hosts_and_resolvers_are_reached_and_the_rest_is_counted(host: Changing) -> None:
    with neighbour(tcp=(8001, 8002), udp=(53, 99)) as other:
        assert (connection(OTHER, 8001), connection(RESOLVER, 8002), datagram(OTHER, 53)) == ("open", "open", True)
        assert other.counted(53) == 1
        undo = await made(host, PROFILE)
        assert connection(RESOLVER, 8001) == "open"
        assert connection(RESOLVER, 8002) != "open"
        assert connection(OTHER, 8001) != "open"
        assert datagram(RESOLVER, 53)
        assert other.counted(53) == 1
        assert (datagram(OTHER, 53), datagram(RESOLVER, 99), datagram(OTHER, 99)) == (False, False, False)
        assert (other.counted(53), other.counted(99)) == (0, 0)
        (back_end,) = await host.plugin.back_ends()
        dropped = int(back_end.detail.split("; ")[1].split(" ")[0])
        assert dropped >= 5, "three packets of UDP, and at least one of each connection"
        await confirmed(host, undo)
        assert connection(OTHER, 8001) == "open"
        assert datagram(OTHER, 99)


async def test_a_host_that_is_allowed_on_all_ports_is_no_resolver(host: Changing) -> None:
    with neighbour(tcp=(8002,), udp=(53, 99)) as other:
        await made(host, {"profile": {"allow": [{"host": OTHER}]}})
        assert connection(OTHER, 8002) == "open"
        assert (datagram(OTHER, 99), datagram(OTHER, 53)) == (True, False)
        assert other.counted(53) == 0


async def test_programs_of_this_machine_still_reach_each_other(host: Changing) -> None:
    await made(host, {"profile": {}})
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert connection("127.0.0.1", server.getsockname()[1]) == "open"


async def test_neighbours_of_ipv6_are_found(host: Changing) -> None:
    with neighbour(tcp=()) as other:
        ip("addr", "add", "fd77::1/64", "dev", "near", "nodad")
        other.command("ip", "addr", "add", "fd77::2/64", "dev", "far", "nodad")
        await made(host, {"profile": {"allow": [{"host": "fd77::2", "protocol": "tcp", "port": 8001}]}})
        assert connection("fd77::2", 8001) == "refused", "the question for its address and the packet were let through"
        assert connection("fd77::2", 8002) != "refused"


# --- the rules of others ------------------------------------------------------------------------------------------------


async def test_rules_that_somebody_has_changed_are_seen_and_mended(host: Changing) -> None:
    await made(host, PROFILE)
    assert (await host.query())["profile"]["intact"] is True
    nft("insert rule inet toolcaddie_privacy egress accept")
    assert (await host.query())["profile"]["intact"] is False
    await made(host, PROFILE)
    assert (await host.query())["profile"]["intact"] is True
    nft("chain inet toolcaddie_privacy egress { policy accept; }")
    assert (await host.query())["profile"]["intact"] is False


async def test_the_profile_and_the_tables_of_others_are_apart(host: Changing) -> None:
    nft("add table ip others { chain output { type filter hook output priority 0; tcp dport 9 drop; }; }")
    before = nft("list", "table", "ip", "others")
    await made(host, PROFILE)
    await made(host, {"profile": None})
    assert nft("list", "ruleset") == before


# --- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        ({"other": {}}, "the only thing here is 'profile'"),
        ({"profile": {"resolvers": ["dns.example.org"]}}, "names are not resolved"),
        ({"profile": {"resolvers": ["10.0.0.0/8"]}}, "a resolver is one address"),
        ({"profile": {"resolvers": ["fe80::1%eth0"]}}, "has a scope"),
        ({"profile": {"allow": [{"host": "example.org"}]}}, "names are not resolved"),
        ({"profile": {"allow": [{"host": "10.0.0.1", "port": 443}]}}, "a port needs the protocol tcp or udp"),
        ({"profile": {"allow": [{"host": "10.0.0.1", "protocol": "udp", "port": 53}]}}, "DNS, which goes to resolvers"),
        ({"profile": {"allow": [{"host": "10.0.0.1", "protocol": "tcp", "port": "1-x"}]}}, "not a port or a range"),
    ],
)
async def test_a_bad_value_is_refused(host: Changing, desired: DesiredState, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        await host.difference(desired)


@pytest.mark.parametrize(
    ("wanted", "question"),
    [
        ({"allow": [{"host": "10.77.0.2", "protocol": "tcp", "port": 8001}, {"host": "0.0.0.0/0"}]}, "lets 1 more"),
        ({"resolvers": [RESOLVER, OTHER, "::1"]}, "lets 2 more"),
        ({"allow": []}, ""),
        ({"resolvers": []}, ""),
    ],
)
async def test_a_person_is_asked_before_a_profile_lets_more_through(
    host: Changing, wanted: dict[str, Any], question: str
) -> None:
    new = await host.difference(PROFILE)
    assert not host.plugin.question(new.changes[0])
    await made(host, PROFILE)
    (change,) = (await host.difference({"profile": wanted})).changes
    assert host.plugin.question(change) == (f"{question} through the egress profile" if question else "")


async def test_a_change_by_the_tools_that_nobody_confirms_is_undone() -> None:
    async with state_host("privacy", privacy, {}, confirm_seconds=0.2) as host:
        before = await host.state()
        applied = await host.apply(PROFILE)
        assert applied.success, applied.text
        assert "policy drop" in nft("list", "ruleset")
        await until(lambda: "policy drop" not in nft("list", "ruleset"))
        assert await host.state() == before


# --- random states ------------------------------------------------------------------------------------------------------

HOSTS = st.sampled_from(["10.0.0.0/8", "10.1.2.3", "0.0.0.0/0", "fd00::/8", "::1", "2001:db8::/127"])


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    protocol = draw(st.sampled_from(["any", "tcp", "udp", "icmp"]))
    ports = st.integers(1000, 65_535) | st.builds("{}-{}".format, st.integers(1, 52), st.integers(1000, 65_535))
    entry = {"host": draw(HOSTS), "protocol": protocol}
    return {**entry, "port": draw(st.none() | ports)} if protocol in ("tcp", "udp") else entry


PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "resolvers": st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1", "::2/128"]), max_size=4),
        "allow": st.lists(entries(), max_size=5),
    },
)


@pytest.mark.proves("R004-31")
@pytest.mark.timeout(3_600)
def test_random_profiles_are_reached_and_left_again() -> None:
    check_properties(privacy, st.fixed_dictionaries({}, optional={"profile": st.none() | PROFILES}))


async def test_it_keeps_the_promises_of_all_state_plugins() -> None:
    await check_all(StateSubject(name="privacy", make=privacy, desired=PROFILE), STATE)
