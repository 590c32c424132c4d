"""Checks and completes the desired attributes of one link or route."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_interface, ip_network
from types import MappingProxyType
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.network.reading import route_key, sorted_addresses

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_NAME_TEXT = "a link's name is 1 to 15 letters, digits, dots, dashes and underscores"
_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"bridge": (), "dummy": (), "veth": ("peer",), "vlan": ("parent", "vlan")}
)
"""The kinds of links that can be created and deleted, each with the attributes that only it has."""
_FIXED = ("kind", "peer", "parent", "vlan")
_SMALLEST_IPV6_MTU = 1280


def is_route(target: str) -> bool:
    """Returns True for the name of a route. No link has such a name, because the kernel allows no spaces in them."""
    return target.startswith("route ")


def planned(target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    """Returns all attributes after the change. Raises `RequestError`."""
    if is_route(target):
        return _route(target, desired, current)
    if not _NAME.match(target):
        raise RequestError(f"{target[:40]!r}: {_NAME_TEXT}; a route is written as in 'route 10.0.0.0/8'")
    if desired is not None:
        return _link(target, desired, current)
    if current is not None:
        _check_deletion(target, current)
    return None


def _check_deletion(name: str, current: JsonObject) -> None:
    if current["kind"] not in _FIELDS:
        raise RequestError(
            f"{name}: a link of the kind {current['kind']} cannot be deleted; only {', '.join(_FIELDS)} can"
        )
    if current["kind"] == "veth" and current["peer"] is None:
        raise RequestError(
            f"{name}: its peer is in another network namespace, such as a container, so it could not be made again"
        )


def _link(name: str, desired: JsonObject, current: JsonObject | None) -> JsonObject:
    base = _created(name, desired) if current is None else current
    for attribute in desired:
        if attribute not in base:
            raise RequestError(f"{name}: a link of the kind {base['kind']} has no attribute {attribute!r}")
    for attribute in _FIXED:
        if attribute in desired and desired[attribute] != base[attribute]:
            raise RequestError(f"{name}: its {attribute} cannot be changed; delete it, and create it afterwards")
    after = {**base, **desired}
    after["addresses"] = _addresses(name, after["addresses"])
    _check_master(name, after)
    if after["mtu"] < _SMALLEST_IPV6_MTU and any(":" in address for address in after["addresses"]):
        raise RequestError(f"{name}: with IPv6 addresses its mtu is at least {_SMALLEST_IPV6_MTU}")
    if base["kind"] == "loopback":
        _check_loopback(name, base, after)
    return after


def _created(name: str, desired: JsonObject) -> JsonObject:
    """Returns the attributes of a new link of which nothing but its kind is known."""
    kind = desired.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise RequestError(f"{name}: there is no such link; to create one, give a kind: {', '.join(_FIELDS)}")
    for attribute in _FIELDS[kind]:
        if desired.get(attribute) is None:
            raise RequestError(f"{name}: to create a link of the kind {kind}, give {' and '.join(_FIELDS[kind])}")
    for attribute in {"peer", "parent"}.intersection(_FIELDS[kind]):
        if not _NAME.match(desired[attribute]) or desired[attribute] == name:
            raise RequestError(f"{name}: {attribute} is the name of another link; {_NAME_TEXT}")
    own = {attribute: desired[attribute] for attribute in _FIELDS[kind]}
    return {"kind": kind, "up": True, "mtu": 1500, "addresses": [], "master": None, **own}


def _addresses(name: str, texts: list[Any]) -> list[str]:
    for text in texts:
        try:
            address = ip_interface(text)
        except ValueError as error:
            raise RequestError(f"{name}: {text[:60]!r} is not an address such as 10.0.0.5/24") from error
        if address.is_multicast or address.is_unspecified or (address.version == 6 and address.is_link_local):
            raise RequestError(f"{name}: {text[:60]} cannot be set; it is multicast, unspecified or link-local")
        if getattr(address, "scope_id", None):
            raise RequestError(f"{name}: {text[:60]!r} has a scope; leave it out")
    return sorted_addresses(texts)


def _check_master(name: str, after: JsonObject) -> None:
    master = after["master"]
    if master is None:
        return
    if not _NAME.match(master) or master == name:
        raise RequestError(f"{name}: master is the name of a bridge; {_NAME_TEXT}")
    if after["kind"] in ("bridge", "loopback"):
        raise RequestError(f"{name}: a link of the kind {after['kind']} cannot belong to a bridge")


def _check_loopback(name: str, base: JsonObject, after: JsonObject) -> None:
    if (base["up"], base["mtu"]) != (after["up"], after["mtu"]):
        raise RequestError(f"{name}: the loopback link stays as it is; only its addresses can be changed")
    missing = [each for each in base["addresses"] if each not in after["addresses"] and ip_interface(each).is_loopback]
    if missing:
        raise RequestError(f"{name}: {missing[0]} stays; programs of this machine reach each other there")


def _route(target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    try:
        destination, _ = route_key(target)
    except (ValueError, IndexError) as error:
        raise RequestError(
            f"{target[:80]!r}: a route is written as in 'route 10.0.0.0/8', 'route ::/0' or 'route 0.0.0.0/0 metric 50'"
        ) from error
    after = None if desired is None else _routed(target, destination, desired, current)
    if current is not None and current["other"] and after != current:
        raise RequestError(f"{target}: it has {', '.join(current['other'])}, which could not be set again, so it stays")
    return after


def _routed(target: str, destination: str, desired: JsonObject, current: JsonObject | None) -> JsonObject:
    new: JsonObject = {"via": None, "interface": None, "source": None, "onlink": False, "other": []}
    after = {**new, **(current or {}), **desired}
    if set(after) != set(new):
        raise RequestError(f"{target}: a route has the attributes via, interface, source and onlink only")
    if after["other"] != (current or new)["other"]:
        raise RequestError(f"{target}: other cannot be set")
    if not isinstance(after["interface"], str) or not _NAME.match(after["interface"]):
        raise RequestError(f"{target}: interface is the name of a link; {_NAME_TEXT}")
    for attribute in ("via", "source"):
        if after[attribute] is not None:
            after[attribute] = _address(target, attribute, after[attribute], ip_network(destination).version)
    if after["onlink"] and after["via"] is None:
        raise RequestError(f"{target}: onlink is about a gateway; give via")
    return after


def _address(target: str, attribute: str, text: str, version: int) -> str:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise RequestError(f"{target}: {attribute} is an address such as 10.0.0.1, not {text[:60]!r}") from error
    if address.version != version or "%" in text:
        raise RequestError(f"{target}: {attribute} is an IPv{version} address without a scope, not {text[:60]}")
    return str(address)
