"""Reads the state: links by their names, and routes by names such as `route 10.0.0.0/8` or `route ::/0 metric 50`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_interface, ip_network
from typing import Any

from toolcaddie.core.states import State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.rtnetlink import Kernel, Link, links

_MAIN_TABLE = 254
_UNICAST = 1
_PROTOCOLS_OF_THE_KERNEL = (1, 2, 9)
"""Redirects, routes that come with an address, and router advertisements: they change by themselves."""
_DEFAULT_METRIC = {4: 0, 6: 1024}
_ONLINK = 4
_OTHER = ("tos", "src_len", "metrics", "encap", "nh_id", "pref")
"""Other attributes of a route, which are shown by name and never set."""


async def read(kernel: Kernel) -> State:
    """Returns the state of this network namespace."""
    present = await links(kernel)
    names = {link.index: link.name for link in present}
    state: dict[str, JsonObject] = {link.name: _attributes(link, names) for link in present}
    async for message in await kernel.get_routes():
        if (route := in_state(message, names)) is not None:
            state.setdefault(*route)
    return state


def sorted_addresses(addresses: Iterable[str]) -> list[str]:
    """Returns the addresses in the order in which the state shows them, each once."""
    return [each.with_prefixlen for each in sorted({ip_interface(text) for text in addresses}, key=_order)]


def route_name(destination: str, metric: int) -> str:
    """Returns the name of a route in the state."""
    network = ip_network(destination)
    plain = metric == _DEFAULT_METRIC[network.version]
    return f"route {network}" if plain else f"route {network} metric {metric}"


def route_key(name: str) -> tuple[str, int]:
    """Returns the destination and the metric of a route, the reverse of `route_name`. Raises `ValueError` for another text."""
    kind, destination, *rest = name.split(" ")
    network = ip_network(destination)
    metric = int(rest[1]) if len(rest) == 2 else _DEFAULT_METRIC[network.version]
    if name != route_name(destination, metric) or not 0 <= metric < 2**32:
        raise ValueError(f"{kind} {destination} is not written in the way in which it is shown")
    return str(network), metric


def _order(address: Any) -> tuple[int, Any]:
    return address.version, address


def _attributes(link: Link, names: dict[int, str]) -> JsonObject:
    attributes: dict[str, Any] = {
        "kind": link.kind,
        "up": link.up,
        "mtu": link.mtu,
        "addresses": sorted_addresses(address.cidr for address in link.addresses if address.own),
        "master": None if link.master is None else names.get(link.master),
    }
    lower = None if link.lower is None else names.get(link.lower)
    if link.kind == "veth":
        attributes["peer"] = lower
    elif link.kind == "vlan":
        attributes |= {"parent": lower, "vlan": link.vlan}
    return attributes


def in_state(message: Any, names: Mapping[int, str]) -> tuple[str, JsonObject] | None:
    """Returns a route with its name; None for one that is no part of the state."""
    ours = message["type"] == _UNICAST and message.get("table") == _MAIN_TABLE
    name = names.get(message.get("oif"))
    if not ours or comes_back(message) or name is None or message.get("via"):
        return None
    everywhere = "0.0.0.0" if message["family"] == 2 else "::"
    destination = f"{message.get('dst') or everywhere}/{message['dst_len']}"
    return route_name(destination, message.get("priority") or 0), {
        "via": message.get("gateway"),
        "interface": name,
        "source": message.get("prefsrc"),
        "onlink": bool(message["flags"] & _ONLINK),
        "other": [text for text in _OTHER if message.get(text)],
    }


def comes_back(message: Any) -> bool:
    """Returns True for a route that the kernel itself makes, and makes again."""
    return message["proto"] in _PROTOCOLS_OF_THE_KERNEL
