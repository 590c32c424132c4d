"""Makes changes of links and routes, in an order in which the kernel accepts them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface, ip_network
from typing import Any

from toolcaddie.core.states import Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.rtnetlink import Kernel, asked, links
from toolcaddie.tools.host.states.network.consistency import check
from toolcaddie.tools.host.states.network.losses import check_losses
from toolcaddie.tools.host.states.network.planning import is_route
from toolcaddie.tools.host.states.network.reading import read, route_key

_STATIC = 4
_LINK_SCOPE = 253
_UNUSUAL_MTU = 1501


async def make(kernel: Kernel, changes: Sequence[Change]) -> None:
    """Makes the changes. Raises `HostError`, before anything is changed if they do not fit together."""
    before = await read(kernel)
    after = {change.target: change.after for change in changes}
    wanted = {name: attributes for name, attributes in {**before, **after}.items() if attributes is not None}
    check(wanted)
    await check_losses(kernel, before, wanted, after)
    for name in sorted(filter(is_route, after)):
        if name in before:
            await _delete_route(kernel, name, before[name])
    changed = {
        name: wanted[name] for name in sorted(after, key=_depth(wanted)) if name in wanted and not is_route(name)
    }
    await _delete_links(kernel, [name for name in sorted(after) if name not in wanted and not is_route(name)])
    await _create_links(kernel, {name: each for name, each in changed.items() if name not in before})
    for name, attributes in changed.items():
        await _set_link(kernel, name, attributes)
    await _restore(kernel, changed, wanted)


def _depth(wanted: State) -> Any:
    """Returns a key that sorts VLANs behind the links below them."""
    return lambda name: (wanted.get(name, {}).get("kind") == "vlan", name)


async def _delete_links(kernel: Kernel, names: list[str]) -> None:
    for name in names:
        if index := (await _indexes(kernel)).get(name):  # the peer of a deleted link is gone already
            await asked(f"delete {name}", kernel.link("del", index=index))


async def _create_links(kernel: Kernel, created: State) -> None:
    for name, attributes in created.items():
        kind, indexes = attributes["kind"], await _indexes(kernel)
        if name in indexes:  # the other end of a pair
            continue
        details: dict[str, Any] = {}
        if kind == "veth":
            details = {"peer": attributes["peer"]}
        elif kind == "vlan":
            details = {"link": indexes[attributes["parent"]], "vlan_id": attributes["vlan"]}
        await asked(f"create {name} of the kind {kind}", kernel.link("add", ifname=name, kind=kind, **details))
        if kind == "bridge":  # the MTU of a bridge follows that of its links until it is changed for the first time
            index = (await _indexes(kernel))[name]
            await asked(f"set the mtu of {name}", kernel.link("set", index=index, mtu=_UNUSUAL_MTU))


async def _set_link(kernel: Kernel, name: str, wanted: JsonObject) -> None:
    indexes, current = await _indexes(kernel), (await read(kernel))[name]
    index, master = indexes[name], wanted["master"]
    if current["master"] != master:
        await asked(
            f"set the master of {name}", kernel.link("set", index=index, master=indexes[master] if master else 0)
        )
    if current["mtu"] != wanted["mtu"]:
        await asked(f"set the mtu of {name}", kernel.link("set", index=index, mtu=wanted["mtu"]))
    if current["up"] != wanted["up"]:
        await asked(
            f"bring {name} {'up' if wanted['up'] else 'down'}",
            kernel.link("set", index=index, state="up" if wanted["up"] else "down"),
        )
    await _add_addresses(kernel, name, index, wanted, (await read(kernel))[name])
    await _delete_addresses(kernel, name, index, wanted)


async def _delete_addresses(kernel: Kernel, name: str, index: int, wanted: JsonObject) -> None:
    """Deletes the addresses that are not wanted, one at a time: with one the kernel may drop others of its network."""
    while surplus := [each for each in (await read(kernel))[name]["addresses"] if each not in wanted["addresses"]]:
        address = ip_interface(surplus[0])
        await asked(
            f"delete {surplus[0]} of {name}",
            kernel.addr("del", index=index, address=str(address.ip), prefixlen=address.network.prefixlen),
        )


async def _add_addresses(kernel: Kernel, name: str, index: int, wanted: JsonObject, current: JsonObject) -> None:
    for cidr in wanted["addresses"]:
        if cidr not in current["addresses"]:
            address = ip_interface(cidr)
            await asked(
                f"add {cidr} to {name}",
                kernel.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen),
            )


async def _restore(kernel: Kernel, changed: State, wanted: State) -> None:
    """Adds the new routes, and what the kernel has dropped on the way: IPv6 addresses of a link that went down, further addresses
    of a network whose first one was deleted, and the routes that needed an address which was replaced."""
    present, indexes = await read(kernel), await _indexes(kernel)
    for name, attributes in changed.items():
        await _add_addresses(kernel, name, indexes[name], attributes, present[name])
    present = await read(kernel)
    missing = [name for name in wanted if is_route(name) and name not in present]
    for name in sorted(missing, key=lambda each: wanted[each]["via"] is not None):  # a gateway may need another route
        await _add_route(kernel, name, wanted[name], indexes)


async def _add_route(kernel: Kernel, name: str, attributes: JsonObject, indexes: dict[str, int]) -> None:
    request = _route(name, attributes, indexes)
    if attributes["via"] is None and ip_network(request["dst"]).version == 4:
        request["scope"] = _LINK_SCOPE
    if attributes["source"] is not None:
        request["prefsrc"] = attributes["source"]
    if attributes["onlink"]:
        request["flags"] = ["onlink"]
    await asked(f"add {name}", kernel.route("add", proto=_STATIC, **request))


async def _delete_route(kernel: Kernel, name: str, attributes: JsonObject) -> None:
    request = _route(name, attributes, await _indexes(kernel))
    await asked(f"delete {name}", kernel.route("del", proto=0, scope=255, **request))


def _route(name: str, attributes: JsonObject, indexes: dict[str, int]) -> dict[str, Any]:
    destination, metric = route_key(name)
    request: dict[str, Any] = {"dst": destination, "oif": indexes[attributes["interface"]]}
    if metric:
        request["priority"] = metric
    if attributes["via"] is not None:
        request["gateway"] = attributes["via"]
    return request


async def _indexes(kernel: Kernel) -> dict[str, int]:
    return {link.name: link.index for link in await links(kernel)}
