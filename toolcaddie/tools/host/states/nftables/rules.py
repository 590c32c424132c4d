"""One filter rule, as statements of libnftables' JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from socket import AF_INET, AF_INET6, inet_ntop
from types import MappingProxyType
from typing import Any

from toolcaddie.core.errors import RequestError

Statement = dict[str, Any]

_REJECT = {"type": "icmpx", "expr": "port-unreachable"}
_VERDICTS: Mapping[str, Statement] = MappingProxyType(
    {"accept": {"accept": None}, "drop": {"drop": None}, "reject": {"reject": _REJECT}}
)
_ICMP = {"set": ["icmp", "ipv6-icmp"]}
_ESTABLISHED = ["established", "related"]

_NETWORK: dict[str, Any] = {"type": ["string", "null"], "maxLength": 50}
ATTRIBUTES: Mapping[str, Any] = MappingProxyType(
    {
        "interface": {"type": ["string", "null"], "maxLength": 15},
        "established": {"type": "boolean", "description": "Only packets of connections that exist"},
        "source": {**_NETWORK, "description": "Address or network"},
        "destination": _NETWORK,
        "protocol": {"enum": ["any", "tcp", "udp", "icmp"]},
        "port": {"type": ["integer", "string", "null"], "maxLength": 11, "description": "Or a range, 8000-8100"},
        "action": {"enum": ["accept", "drop", "reject"]},
    }
)
"""JSON schemas of the attributes of a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRule:
    """The packets that a rule is about, and what becomes of them. None: it does not matter."""

    interface: str | None = None
    """Incoming for the chains input and forward, outgoing for the others."""
    established: bool = False
    source: str | None = None
    destination: str | None = None
    protocol: str = "any"
    port: int | str | None = None
    """The destination port."""
    action: str

    def __post_init__(self) -> None:
        families = {":" in network for network in (self.source, self.destination) if network is not None}
        if len(families) > 1:
            raise RequestError("source and destination are both IPv4 or both IPv6")


def statements(rule: PacketRule, *, outgoing: bool) -> list[Statement]:
    """Returns the statements of a rule, in the order in which `nft` lists them."""
    matches: list[Statement] = []
    if rule.interface is not None:
        matches.append(_match({"meta": {"key": "oifname" if outgoing else "iifname"}}, rule.interface))
    if rule.established:
        matches.append(_match({"ct": {"key": "state"}}, _ESTABLISHED, "in"))
    for field, network in (("saddr", rule.source), ("daddr", rule.destination)):
        if network is not None:
            matches.append(_match(_payload("ip6" if ":" in network else "ip", field), _network(network)))
    if rule.port is not None:
        matches.append(_match(_payload(rule.protocol, "dport"), _port(rule.port)))
    elif rule.protocol != "any":
        matches.append(_match({"meta": {"key": "l4proto"}}, _ICMP if rule.protocol == "icmp" else rule.protocol))
    return [*matches, _VERDICTS[rule.action]]


def rule_of(listed: Sequence[Statement], *, outgoing: bool) -> PacketRule | None:
    """Returns the rule that has these statements; None: it is none that `statements` makes."""
    try:
        rule = PacketRule(**_attributes(listed))
        same = normal(statements(rule, outgoing=outgoing)) == normal(listed)
    except (RequestError, LookupError, TypeError, ValueError):
        return None
    return rule if same else None


def normal(listed: Any) -> Any:
    """Returns statements without the differences that mean nothing: the order of a set, and values of counters."""
    match listed:
        case {"set": [*items]} | {"match": {"op": "in", "right": [*items]}}:
            left = listed.get("match", {}).get("left")
            return ["set", left, sorted(map(str, items))]
        case {"reject": None}:
            return {"reject": _REJECT}
        case {"counter": dict()}:
            return {"counter": None}
        case dict():
            return {key: normal(value) for key, value in listed.items()}
        case list() | tuple():
            return [normal(value) for value in listed]
        case _:
            return listed


def _attributes(listed: Sequence[Statement]) -> dict[str, Any]:
    """Returns what the statements seem to say. Whether they say nothing else is seen when they are made again."""
    *matches, verdict = listed
    attributes: dict[str, Any] = {"action": next(iter(verdict))}
    for statement in matches:
        left, right = statement["match"]["left"], statement["match"]["right"]
        match left:
            case {"meta": {"key": "iifname" | "oifname"}}:
                attributes["interface"] = right
            case {"meta": {"key": "l4proto"}}:
                attributes["protocol"] = right if isinstance(right, str) else "icmp"
            case {"ct": {"key": "state"}}:
                attributes["established"] = True
            case {"payload": {"field": "saddr"}}:
                attributes["source"] = _network_text(right)
            case {"payload": {"field": "daddr"}}:
                attributes["destination"] = _network_text(right)
            case {"payload": {"field": "dport", "protocol": protocol}}:
                attributes |= {"protocol": protocol, "port": _port_value(right)}
    return attributes


def _match(left: Statement, right: Any, op: str = "==") -> Statement:
    return {"match": {"op": op, "left": left, "right": right}}


def _payload(protocol: str, field: str) -> Statement:
    return {"payload": {"protocol": protocol, "field": field}}


def _network(text: str) -> Any:
    """Returns a network as `nft` lists it, which writes the end of some IPv6 addresses as IPv4: `::ffff:1.2.3.4`."""
    network = ip_network(text)
    family = AF_INET6 if network.version == 6 else AF_INET
    address = inet_ntop(family, network.network_address.packed)
    whole = network.prefixlen == network.max_prefixlen
    return address if whole else {"prefix": {"addr": address, "len": network.prefixlen}}


def _network_text(right: Any) -> str:
    return str(ip_network(right if isinstance(right, str) else f"{right['prefix']['addr']}/{right['prefix']['len']}"))


def _port(port: int | str) -> Any:
    return port if isinstance(port, int) else {"range": [int(bound) for bound in port.split("-")]}


def _port_value(right: Any) -> int | str:
    return right if isinstance(right, int) else "-".join(str(bound) for bound in right["range"])
