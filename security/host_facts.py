"""All that can be seen of the machine of `security.host_world` from outside, without the tools under attack."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from security.escapes import packets
from security.host_world import World

Facts = Mapping[str, str]
"""What is true of the machine, by the name of the thing: `ovs Port p1`, `user ann`, `file written/old.txt`."""

_OF_LISTED = (
    "unit web.service",
    "ovs Port p9",
    "ovs Interface p9",
    "ovs Bridge br0 ports",
    "ovs number of changes",
    "nft rule 100 guest",
    "nft table inet toolcaddie",
    "nft chain inet toolcaddie",
    "link nic0",
    "address nic0",
    "neighbour nic0",
    "user guest",
    "file system/etc",
    "container web1",
)
"""The facts that the effects of `LISTED` may change."""
_TOPS = ("shown", "written", "vault", "work", "system", "packages/root")
_PRIVATE = ("shown/note.txt", "packages/root/var/cache", "packages/root/var/lib/apt", "packages/root/var/lib/dpkg/lock")
"""What the attack itself writes, and what apt writes while it reads."""
_UNIT = "Id,ActiveState,SubState,UnitFileState,InvocationID,ExecMainPID,LoadState,FragmentPath,DropInPaths"
_OWN_FLAGS = {"UP", "PROMISC", "ALLMULTI", "NOARP", "DYNAMIC"}
"""Flags of a link that somebody has set. The others follow from its peer."""
_COLUMNS = {
    "Bridge": "name,controller,fail_mode,flow_tables,mirrors,netflow,other_config,protocols,sflow,external_ids",
    "Port": "name,tag,trunks,vlan_mode,other_config,external_ids",
    "Interface": "name,type,options,other_config,external_ids,mtu_request",
    "Open_vSwitch": "manager_options,ssl,other_config,external_ids",
}


def facts(world: World) -> Facts:
    """Returns everything that is true now."""
    readers: Sequence[Callable[[], Facts]] = (
        lambda: _files(world),
        _links,
        _filters,
        lambda: _tables(world),
        lambda: _flows(world),
        lambda: _units(world),
        _mounts,
        lambda: _users(world),
    )
    with ThreadPoolExecutor(len(readers)) as threads:
        parts = [each.result() for each in [threads.submit(reader) for reader in readers]]
    containers = {
        f"container {name}": json.dumps(each, sort_keys=True) for name, each in world.containers.instances.items()
    }
    own = {"packets": str(packets()), **containers}
    return {name: value for part in [*parts, own] for name, value in part.items()}


def changed(before: Facts, after: Facts, *, listed: bool = False) -> list[str]:
    """Returns the names of facts that are no longer the same. `listed`: leaves out those that the listed effects may change."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return sorted(name for name in names if not (listed and _is_of_listed(name)))


def _is_of_listed(name: str) -> bool:
    return any(name == each or name.startswith((f"{each} ", f"{each}/")) for each in _OF_LISTED)


def _files(world: World) -> Facts:
    facts = {}
    for top in _TOPS:
        for place, folders, files in os.walk(world.folder / top):
            for name in [*folders, *files]:
                path = Path(place) / name
                where = str(path.relative_to(world.folder))
                if not where.startswith(_PRIVATE):
                    facts[f"file {where}"] = _digest(path)
    return facts | {f"file {path}": _digest(path) for path in world.systemd.units.rglob("*")}


def _links() -> Facts:
    names = ("ifname", "mtu", "address", "master", "ifalias", "promiscuity")
    facts = {}
    for each in _json("ip", "-j", "-d", "link"):
        flags = sorted(_OWN_FLAGS.intersection(each["flags"]))
        facts[f"link {each['ifname']}"] = f"{' '.join(flags)} {_text(each, names)}"
    for each in _json("ip", "-j", "addr"):
        for address in each["addr_info"]:
            facts[f"address {each['ifname']} {address['local']}/{address['prefixlen']}"] = address["scope"]
    for family in ("-4", "-6"):
        for route in _json("ip", "-j", family, "route", "show", "table", "all"):
            if route.get("protocol") != "kernel":
                facts[f"route {route.get('dst')} {route.get('dev')} {route.get('table')}"] = _text(route, ("gateway",))
    facts["rules of routes"] = json.dumps(_json("ip", "-j", "rule"))
    for each in _json("ip", "-j", "neigh", "show", "nud", "permanent"):
        facts[f"neighbour {each['dev']} {each['dst']}"] = json.dumps(each)
    return facts


def _filters() -> Facts:
    facts: dict[str, str] = {}
    for each in _json("nft", "-j", "list", "ruleset")["nftables"]:
        for kind, thing in each.items():
            if kind == "metainfo":
                continue
            where = " ".join(str(thing.get(name, "")) for name in ("family", "table", "name", "chain"))
            label = thing.get("comment", "")
            name = " ".join(f"nft {kind} {label} {where}".split())
            clean = {key: value for key, value in thing.items() if key not in ("handle", "index")}
            facts[name] = facts.get(name, "") + json.dumps(clean, sort_keys=True)
    return facts


def _tables(world: World) -> Facts:
    facts = {"ovs number of changes": " ".join(world.ovs.vsctl("get", "Open_vSwitch", ".", "next_cfg"))}
    for table, columns in _COLUMNS.items():
        for line in world.ovs.vsctl("--format=csv", "--no-headings", f"--columns={columns}", "list", table):
            name = line.split(",")[0] if table != "Open_vSwitch" else ""
            facts[f"ovs {table} {name}".rstrip()] = line
    return facts


def _flows(world: World) -> Facts:
    facts = {}
    for bridge in world.ovs.vsctl("list-br"):
        facts[f"ovs Bridge {bridge} ports"] = " ".join(sorted(world.ovs.vsctl("list-ports", bridge)))
        flows = world.ovs.ofctl("dump-flows", bridge, "--no-stats")
        facts[f"ovs Bridge {bridge} flows"] = "\n".join(sorted(each for each in flows if "OFPST" not in each))
    return facts


def _units(world: World) -> Facts:
    facts = {
        "moment at which systemd has read its files": world.systemd.control(
            "show", "-pUnitsLoadTimestampMonotonic"
        ).stdout
    }
    names = world.systemd.control("list-units", "--all", "--plain", "--no-legend", "--type=service,target").stdout
    units = [line.split()[0] for line in names.splitlines()]
    text = world.systemd.control("show", f"--property={_UNIT}", *units).stdout
    for block in text.strip().split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines())
        if values["LoadState"] == "loaded":  # reading a name is enough for systemd to list it as not found
            facts[f"unit {values['Id']}"] = block
    return facts


def _mounts() -> Facts:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {f"mount {line.split()[4]} {number}": line.split(" ", 2)[2] for number, line in enumerate(lines)}


def _users(world: World) -> Facts:
    facts: dict[str, str] = {}
    for file in ("passwd", "shadow", "group", "gshadow"):
        for line in (world.folder / "system/etc" / file).read_text().splitlines():
            kind = "user" if file in ("passwd", "shadow") else "group"
            name = f"{kind} {line.split(':')[0]}"
            facts[name] = facts.get(name, "") + line
    return facts


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    status = path.stat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return f"{status.st_mode} {status.st_uid} {status.st_gid} {content}"


def _json(*command: str) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return json.loads(done.stdout or "[]")


def _text(thing: Mapping[str, Any], names: Iterable[str]) -> str:
    return json.dumps({name: thing.get(name) for name in names}, sort_keys=True)
