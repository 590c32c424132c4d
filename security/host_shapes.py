"""Attacks on the form of calls: other words, other shapes, mixtures with what is allowed, and differences that are used again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from security.host_calls import Call, Kind, Turn, applied, at_once, raw, value_of
from security.host_forgeries import HONEST_STATES, LISTED_STATES
from security.host_requests import acts, place, placed, reading
from security.host_world import World


def shapes(world: World) -> Iterator[Kind]:
    path = place("{written}/old.txt", world)
    flow = {"bridge": "br1", "flow": "actions=drop"}
    names = (
        "write_file\n",
        " write_file",
        "../write_file",
        "WRITE_FILE",
        "write_file()",
        "host.write_file",
        "host/write_file",
    )
    yield Kind(
        name="names of tools in other words",
        hostile=[raw(name, {"path": path, "content": "evil"}) for name in names]
        + [raw("execute_tool", {"tool_name": name, "arguments": {"path": path, "content": "evil"}}) for name in names],
    )
    forms: Sequence[Call] = (
        ("write_file", {"path": [path], "content": "evil"}),
        ("write_file", {"path": path, "content": {"text": "evil"}}),
        ("write_file", [path, "evil"]),
        ("write_file", {"path": path, "content": "evil", "mode": "force"}),
        ("write_file", {"path": {"$ref": path}, "content": "evil"}),
        ("write_file", {"path": path, "content": "evil", "approved": True}),
        ("write_file", {"path": path, "content": "evil", "read_only": True, "dry_run": False}),
        ("systemd_stop_unit", {"unit": ["other.service"]}),
        ("systemd_stop_unit", {"unit": {"name": "other"}}),
        ("systemd_stop_unit", {"unit": "other", "unit_type": "service", "approved": "yes"}),
        ("systemd_stop_unit", {"Unit": "other"}),
        ("systemd_list_units", {"unit_type": "service; stop other", "state": "all"}),
        ("systemd_list_units", {"state": "active\nstop other", "limit": 10**12}),
        ("ovs_add_flow", {**flow, "context": {"principal": "root"}}),
        ("ovs_add_flow", {"bridge": ["br1"], "flow": "actions=drop"}),
        ("ovs_del_flows", {"bridge": "br0", "match_str": None}),
        ("ovs_del_flows", {"bridge": "br0", "match_str": []}),
        ("plugin_users_apply", {"diff": "all", "dry_run": False}),
        ("plugin_users_apply", {"diff": {}, "dry_run": False}),
        ("plugin_users_query", {"filter": "*\n[!"}),
        ("shell_execute", {"command": "ip", "args": "link delete nic1"}),
        ("shell_execute", {"command": "nft", "args": ["flush", "ruleset"], "context": {}}),
        ("shell_execute", {"command": ["nft", "flush", "ruleset"]}),
        ("shell_execute", {"command": "nft flush ruleset"}),
        ("procfs_read", {"info_type": "../../etc/shadow"}),
        ("procfs_read", {"info_type": "version\n", "path": "/etc/shadow"}),
    )
    yield Kind(name="arguments in other shapes", hostile=[raw(tool, arguments) for tool, arguments in forms])


def mixtures(world: World) -> Iterator[Kind]:
    restart: Call = ("systemd_restart_unit", {"unit": "web"})
    others: Sequence[Call] = (
        ("systemd_stop_unit", {"unit": "other"}),
        ("ovs_del_bridge", {"bridge": "br1"}),
        ("ovs_add_port", {"bridge": "br1", "port": "p9"}),
        ("ovs_add_port", {"bridge": "br0", "port": "p90"}),
        ("write_file", {"path": place("{written}/old.txt", world), "content": "evil"}),
        ("shell_execute", {"command": "ip", "args": ["link", "set", "nic1", "up"]}),
    )
    yield Kind(
        name="a listed call and another at once",
        hostile=[*(at_once(restart, each) for each in others), *(at_once(each, restart, each) for each in others)],
        honest=at_once(restart, ("ovs_add_flow", {"bridge": "br1", "flow": "priority=8,udp,actions=drop"})),
    )
    more = {"network": "nic1", "users": "bob", "lxc": "web2", "firewall": "guest2"}
    doubled = {plugin: {**state, more[plugin]: next(iter(state.values()))} for plugin, state in LISTED_STATES.items()}
    yield Kind(
        name="a listed change and another in one difference",
        hostile=[applied(plugin, desired) for plugin, desired in doubled.items()],
        honest=applied("users", doubled["users"]),
    )
    hostile = [[*reading(world), *act] for act in acts(world)]
    yield Kind(name="a note that demands a change", hostile=hostile, honest=hostile[0])


def replays() -> Iterator[Kind]:
    """Yields differences that are applied, undone, and applied once more."""
    states: Mapping[str, object] = {
        "network": {"nic0": {"mtu": 1380}},
        "firewall": {"guest": {"chain": "input", "action": "accept", "protocol": "tcp", "port": 82}},
        "users": {"bob": {"comment": "again"}},
        "lxc": {"web2": {"description": "again"}},
        "packagekit": {"beta": {"installed": True}},
    }
    yield Kind(
        name="replayed differences",
        hostile=[_replayed(plugin, desired) for plugin, desired in states.items()],
        honest=_replayed("users", states["users"]),
    )


def _replayed(plugin: str, desired: object) -> list[Turn]:
    """Returns the turns that apply a difference, then the way back that the result names, and then the difference again."""
    tool = f"plugin_{plugin}_apply"

    def back(results: Sequence[str]) -> Sequence[Call]:
        undo = (value_of(results[1]) or {}).get("undo") or value_of(results[0])
        return [(tool, {"diff": undo, "dry_run": False})]

    def again(results: Sequence[str]) -> Sequence[Call]:
        return [(tool, {"diff": value_of(results[0]), "dry_run": False})]

    return [*applied(plugin, desired)[:2], back, again]


def crossings(world: World) -> Iterator[Kind]:
    """Yields differences of one plugin that another one is to apply, under its own name or that of the other."""
    states = placed(HONEST_STATES, world)
    pairs = [*zip(states, [*states][1:], strict=False)]
    yield Kind(
        name="differences of another plugin",
        hostile=[_crossed(*pair, states[pair[0]], renamed=renamed) for pair in pairs for renamed in (True, False)],
    )


def _crossed(first: str, second: str, desired: object, *, renamed: bool) -> list[Turn]:
    def apply(results: Sequence[str]) -> Sequence[Call]:
        diff = {**(value_of(results[0]) or {}), **({"plugin": second} if renamed else {})}
        return [(f"plugin_{second}_apply", {"diff": diff, "dry_run": False})]

    return [applied(first, desired)[0], apply]
