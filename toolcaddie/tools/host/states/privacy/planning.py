"""Checks and completes the desired profile."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.nftables import network_text, port_value

PROFILE = "profile"
DNS_PORTS = (53, 853)


def planned(target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    """Returns the whole profile after the change. Raises `RequestError`."""
    if target != PROFILE:
        raise RequestError(f"{target[:40]!r}: the only thing here is {PROFILE!r}")
    if desired is None:
        return None
    after: dict[str, Any] = {"resolvers": [], "allow": [], **(current or {}), **desired, "intact": True}
    if unknown := sorted(set(after).difference(("resolvers", "allow", "intact"))):
        raise RequestError(f"{target}: it has no attribute {unknown[0]!r}")
    after["resolvers"] = sorted({_resolver(text) for text in after["resolvers"]})
    allowed = {canonical_json(entry): entry for entry in map(_entry, after["allow"])}
    after["allow"] = [allowed[key] for key in sorted(allowed)]
    return after


def _resolver(text: str) -> str:
    """Returns the network of one address."""
    network = network_text("resolvers", text)
    if not network.endswith("/128" if ":" in network else "/32"):
        raise RequestError(f"resolvers: {text[:60]!r} is a network; a resolver is one address")
    return network


def _entry(entry: JsonObject) -> JsonObject:
    protocol = entry.get("protocol", "any")
    port = port_value("allow", entry.get("port"), protocol)
    if port in DNS_PORTS:
        raise RequestError(f"allow: port {port} is DNS, which goes to resolvers only; add the address to resolvers")
    return {"host": network_text("allow: host", entry["host"]), "protocol": protocol, "port": port}
