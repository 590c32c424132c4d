"""Reads what `ip` does to network links."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcaddie.tools.host.shell.arguments import READS, CommandEffects, operands

_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,14}")
_FLAGS = (
    *("-4", "-6", "-s", "-d", "-o", "-j", "-p", "-c", "-br", "-brief", "-json", "-details", "-oneline"),
    *("-stats", "-statistics", "-color", "-pretty"),
)


_LINK_WORDS = (
    *("up", "down", "name", "arp", "dynamic", "multicast", "allmulticast", "promisc", "trailers", "txqueuelen"),
    *("qlen", "carrier", "mtu", "address", "broadcast", "brd", "alias", "master", "nomaster", "vf", "addrgenmode"),
    *("netns", "link-netnsid", "xdp", "xdpgeneric", "xdpdrv", "xdpoffload", "protodown", "protodown_reason"),
    *("state", "type", "link", "vrf", "index", "group", "numtxqueues", "numrxqueues", "gso_max_size"),
    *("gso_max_segs", "gro_max_size", "dev", "macaddr", "parentdev", "help"),
)
"""Words with which a change of a link may begin in place of its name. `ip` knows some by their first letters."""
_OTHER_LINKS = frozenset(("oif", "iif", "nexthop", "nhid"))
"""Words of routes after which another link may be meant than the one after `dev`."""


def ip(arguments: Sequence[str]) -> CommandEffects | None:
    """Returns the effects; None: they cannot be read."""
    read = operands(arguments, flags=_FLAGS)
    match read and list(read[0]):
        case [_] | [_, "show" | "list" | "ls" | "get", *_]:
            return READS
        case ["link" | "l", "set" | "delete" | "del" | "add" as verb, *rest]:
            return _ip_link(verb, rest)
        case ["addr" | "address" | "a" | "route" | "r" | "neigh" | "n", _, *rest] if _has_one_link(rest):
            name = rest[rest.index("dev") + 1 : rest.index("dev") + 2]
            return _on("set", *name)
    return None


def _has_one_link(words: Sequence[str]) -> bool:
    return words.count("dev") == 1 and _OTHER_LINKS.isdisjoint(words)


def _ip_link(verb: str, rest: Sequence[str]) -> CommandEffects | None:
    match verb, rest:
        case "add", ["link", _, *more]:
            return _ip_add(more)
        case "add", _:
            return _ip_add(rest)
        case _, ["dev", name, *more] if "name" not in more:
            return _on("set" if verb == "set" else "delete", name)
        case _, [name, *more] if "name" not in more and not any(word.startswith(name) for word in _LINK_WORDS):
            return _on("set" if verb == "set" else "delete", name)
    return None


def _ip_add(rest: Sequence[str]) -> CommandEffects | None:
    match rest:
        case ["name" | "dev", name, "type", _, *more] | [name, "type", _, *more] if "peer" in more:
            peer = more[more.index("peer") + 1 :]
            return _on("add", name, peer[1]) if peer[:1] == ["name"] and len(peer) > 1 else None
        case ["name" | "dev", name, "type", *_] | [name, "type", *_]:
            return _on("add", name)
    return None


def _on(kind: str, *names: str) -> CommandEffects | None:
    if not names or not all(map(_INTERFACE.fullmatch, names)):
        return None
    return CommandEffects(effects=tuple(f"network.{kind} {name}" for name in names))
