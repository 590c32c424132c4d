"""Checks that the things of a wanted state fit together: what one link needs of another, and routes of links."""

from __future__ import annotations

from collections.abc import Iterator

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.network.planning import is_route


def check(wanted: State) -> None:
    """Raises `HostError` for the first thing that the kernel would refuse, or would change without being asked."""
    for name in sorted(wanted):
        attributes = wanted[name]
        problems = _route(name, attributes, wanted) if is_route(name) else _link(name, attributes, wanted)
        for problem in problems:
            raise HostError(f"{problem}, so nothing was done")


def _route(name: str, attributes: JsonObject, wanted: State) -> Iterator[str]:
    interface = attributes["interface"]
    if interface not in wanted:
        yield f"{name} needs the link {interface}; delete the route in the same change, or keep the link"
    elif not wanted[interface]["up"]:
        yield f"{name} needs the link {interface} up; delete the route in the same change, or keep the link up"


def _link(name: str, attributes: JsonObject, wanted: State) -> Iterator[str]:
    master, kind = attributes["master"], attributes["kind"]
    if master is not None and master not in wanted:
        yield f"{name} belongs to {master}, which does not exist then; set its master to null in the same change"
    if kind == "veth" and attributes["peer"] is not None:
        peer = wanted.get(attributes["peer"], {})
        if peer.get("kind") != "veth" or peer.get("peer") != name:
            yield (
                f"{name} and {attributes['peer']} are the two ends of one pair; create and delete both in the same "
                "change, each with the other as its peer"
            )
    if kind == "vlan" and attributes["parent"] is not None:
        parent = wanted.get(attributes["parent"])
        if parent is None:
            yield f"{name} needs the link {attributes['parent']}, which does not exist then"
        elif attributes["up"] and not parent["up"]:
            yield f"{name} can be up only while {attributes['parent']} is"
