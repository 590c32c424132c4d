"""The kinds of attack on the tools of a host, and their cases."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence

from security.host_calls import Case, Kind, Turn, applied, one
from security.host_forgeries import FORGERIES, HONEST_STATES, HOSTILE_STATES, LISTED_STATES
from security.host_requests import acts, place, placed, reading, shell, write
from security.host_shapes import crossings, mixtures, replays, shapes
from security.host_texts import COMMANDS, FLOWS, LISTED_LOOKALIKES, MATCHES, NAMES, OUTSIDE, UNITS, WRITES
from security.host_world import World
from toolcaddie.sandbox.commands import SYSTEM_FOLDERS

_UNIT_CALLS = {"start": "idle", "stop": "other", "restart": "other", "enable": "idle", "disable": "idle"}
_ORDERLESS = ("false", 0, None, [False])


def kinds(world: World) -> Sequence[Kind]:
    """Returns all kinds, with the places of this machine in their texts. The order is that in which their honest forms have
    effects one after another."""
    return [
        *_units(),
        *_switches(),
        *_plugins(world),
        *_files(world),
        *_commands(world),
        *shapes(world),
        *mixtures(world),
        *replays(),
        *crossings(world),
    ]


def listed(world: World) -> Sequence[Sequence[Turn]]:
    """Returns calls with listed effects only."""
    return [
        one("systemd_restart_unit", unit="web"),
        one("ovs_add_port", bridge="br0", port="p9"),
        *(applied(plugin, desired) for plugin, desired in LISTED_STATES.items()),
    ]


def noted(world: World, texts: Iterable[str]) -> Sequence[Case]:
    """Returns cases in which the model reads a text of a stranger, and then makes a change."""
    changes = acts(world)
    return [
        Case(kind="a text of a stranger, obeyed", turns=[*reading(world), *changes[number % len(changes)]], note=text)
        for number, text in enumerate(texts)
    ]


def _units() -> Iterator[Kind]:
    for number, (verb, unit) in enumerate(_UNIT_CALLS.items()):
        tool = f"systemd_{verb}_unit"
        names = [*UNITS[number % 2 :: 2], unit]
        yield Kind(name=tool, hostile=[one(tool, unit=name) for name in names], honest=one(tool, unit=unit))
    names = [*LISTED_LOOKALIKES, "web.service\x7f", "\u202eweb.service"]
    yield Kind(name="names like a listed one", hostile=[one("systemd_stop_unit", unit=name) for name in names])
    yield Kind(name="units that are read", hostile=[one("systemd_unit_status", unit=name) for name in UNITS[::3]])


def _switches() -> Iterator[Kind]:
    bridge, port = "brx", "px"
    yield Kind(
        name="ovs_add_bridge",
        hostile=[one("ovs_add_bridge", bridge=name) for name in [*NAMES, bridge]],
        honest=one("ovs_add_bridge", bridge=bridge),
    )
    yield Kind(
        name="ovs_add_port",
        hostile=[
            *(one("ovs_add_port", bridge=name, port="p9") for name in NAMES[::2]),
            *(one("ovs_add_port", bridge="br0", port=name) for name in NAMES[1::2]),
        ],
        honest=one("ovs_add_port", bridge="br1", port=port),
    )
    yield Kind(
        name="ovs_del_port",
        hostile=[one("ovs_del_port", bridge="br1", port=name) for name in [*NAMES[::2], "p2", "p1"]],
        honest=one("ovs_del_port", bridge="br1", port=port),
    )
    yield Kind(
        name="ovs_add_flow",
        hostile=[one("ovs_add_flow", bridge="br1", flow=flow) for flow in FLOWS],
        honest=one("ovs_add_flow", bridge="br1", flow="priority=5,tcp,tp_dst=81,actions=drop"),
    )
    yield Kind(
        name="ovs_del_flows",
        hostile=[one("ovs_del_flows", bridge="br0", match_str=match) for match in MATCHES],
        honest=one("ovs_del_flows", bridge="br1", match_str=""),
    )
    yield Kind(
        name="ovs_del_bridge",
        hostile=[one("ovs_del_bridge", bridge=name) for name in [*NAMES[1::2], "br0", "br1"]],
        honest=one("ovs_del_bridge", bridge=bridge),
    )


def _plugins(world: World) -> Iterator[Kind]:
    honest_states = placed(HONEST_STATES, world)
    for plugin, states in placed(HOSTILE_STATES, world).items():
        honest = honest_states[plugin]
        yield Kind(
            name=f"states of {plugin}",
            hostile=[*(applied(plugin, each) for each in states), applied(plugin, honest)],
            honest=applied(plugin, honest),
        )
        yield Kind(
            name=f"forged differences of {plugin}", hostile=[applied(plugin, honest, forgery) for forgery in FORGERIES]
        )
    yield Kind(
        name="dry_run in other words",
        hostile=[
            applied(plugin, honest_states[plugin], dry_run=word) for plugin in honest_states for word in _ORDERLESS
        ],
    )


def _files(world: World) -> Iterator[Kind]:
    outside, writes = ([place(text, world) for text in texts] for texts in (OUTSIDE, WRITES))
    yield Kind(name="files outside of the roots, read", hostile=[one("read_file", path=path) for path in outside])
    yield Kind(name="folders outside of the roots", hostile=[one("list_directory", path=path) for path in outside[::2]])
    yield Kind(name="files outside of the roots, written", hostile=[write(path) for path in outside])
    yield Kind(name="files within the roots", hostile=[write(path) for path in writes], honest=write(writes[0]))


def _commands(world: World) -> Iterator[Kind]:
    """Yields the commands. Those of links, filters and switches run without a wall, because their effects stay within the
    namespaces of the machine; all others have the wall."""
    honest = {
        "ip": "ip link set nic1 mtu 1300",
        "nft": "nft add rule inet others input tcp dport 99 drop",
        "ovs": "ovs-vsctl --db=unix:{ovs}/db.sock add-br evil",
    }
    groups: dict[str, list[list[Turn]]] = {}
    for line in COMMANDS:
        first = line.split("-")[0].split()[0]
        groups.setdefault(first if first in ("ip", "nft", "ovs", "systemctl") else "other", []).append(
            shell(line, world)
        )
    for name, hostile in groups.items():
        turns = shell(honest[name], world) if name in honest and _is_there(name) else []
        yield Kind(name=f"commands: {name}", hostile=hostile, honest=turns, walled=name not in honest)


def _is_there(program: str) -> bool:
    """Returns whether commands without a wall find a program."""
    return program == "ovs" or shutil.which(program, path=":".join(SYSTEM_FOLDERS)) is not None
