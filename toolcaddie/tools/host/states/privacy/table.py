"""The table `inet toolcaddie_privacy`: the rules of a profile, and the profile that a listing shows.

What the kernel needs comes first: loopback, connections that exist, and the neighbours of IPv6. DNS to others than the resolvers
is dropped before the list, so that a host on the list that is allowed on all ports is no resolver either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.nftables import Nft, PacketRule, normal, rule_of, statements
from toolcaddie.tools.host.states.nftables.command import NftObject
from toolcaddie.tools.host.states.privacy.planning import DNS_PORTS

_CHAIN = "egress"
_HOOK = {"type": "filter", "hook": "output", "prio": 0, "policy": "drop"}
_COUNTER = "dropped"
_NEIGHBOURS = ["nd-router-solicit", "nd-neighbor-solicit", "nd-neighbor-advert", "mld2-listener-report"]


def commands(nft: Nft, profile: JsonObject) -> list[NftObject]:
    """Returns the commands that put this profile in force, in one transaction."""
    chain = {**nft.place, "name": _CHAIN}
    rules = [{**nft.place, "chain": _CHAIN, **rule} for rule in _rules(profile)]
    return [
        {"add": {"counter": {**nft.place, "name": _COUNTER}}},
        {"add": {"chain": {**chain, **_HOOK}}},
        {"flush": {"chain": chain}},
        *({"add": {"rule": rule}} for rule in rules),
    ]


def profile_of(listing: Sequence[NftObject]) -> JsonObject:
    """Returns the profile of the table. It is `intact` if the table has exactly the rules of this profile."""
    listed = [{"comment": each["rule"].get("comment"), "expr": each["rule"]["expr"]} for each in _all(listing, "rule")]
    allowed = [rule for rule in (_allowed(each) for each in listed) if rule is not None]
    resolvers = [address for address in (_resolver(each) for each in listed) if address is not None]
    profile: dict[str, Any] = {"resolvers": resolvers, "allow": allowed}
    chains = [{name: each["chain"].get(name) for name in ("name", *_HOOK)} for each in _all(listing, "chain")]
    intact = chains == [{"name": _CHAIN, **_HOOK}] and normal(listed) == normal(_rules(profile))
    return {**profile, "intact": intact}


def dropped_packets(listing: Sequence[NftObject]) -> int:
    """Returns the number of packets that the profile has dropped."""
    return sum(each["counter"]["packets"] for each in _all(listing, "counter") if each["counter"]["name"] == _COUNTER)


def _rules(profile: JsonObject) -> list[dict[str, Any]]:
    dropping = [{"counter": _COUNTER}, {"drop": None}]
    neighbours = {"payload": {"protocol": "icmpv6", "field": "type"}}
    return [
        _rule("loopback", *_statements(PacketRule(interface="lo", action="accept"))),
        _rule("established", *_statements(PacketRule(established=True, action="accept"))),
        _rule("neighbours", _in(neighbours, _NEIGHBOURS), {"accept": None}),
        *(_rule("resolver", *_to(address)[:1], *_dns(), {"accept": None}) for address in profile["resolvers"]),
        _rule("other DNS", *_dns(), *dropping),
        *(_rule("allow", *_statements(_packets(entry))) for entry in profile["allow"]),
        _rule("the rest", *dropping),
    ]


def _rule(comment: str, *expressions: Any) -> dict[str, Any]:
    return {"comment": comment, "expr": list(expressions)}


def _statements(rule: PacketRule) -> list[Any]:
    return statements(rule, outgoing=True)


def _to(network: str) -> list[Any]:
    return _statements(PacketRule(destination=network, action="accept"))


def _packets(entry: JsonObject) -> PacketRule:
    return PacketRule(destination=entry["host"], protocol=entry["protocol"], port=entry["port"], action="accept")


def _dns() -> list[Any]:
    ports = {"payload": {"protocol": "th", "field": "dport"}}
    return [_in({"meta": {"key": "l4proto"}}, ["tcp", "udp"]), _in(ports, list(DNS_PORTS))]


def _in(left: Any, right: list[Any]) -> dict[str, Any]:
    return {"match": {"op": "==", "left": left, "right": {"set": right}}}


def _allowed(listed: dict[str, Any]) -> JsonObject | None:
    rule = rule_of(listed["expr"], outgoing=True) if listed["comment"] == "allow" else None
    if rule is None or rule.destination is None:
        return None
    return {"host": rule.destination, "protocol": rule.protocol, "port": rule.port}


def _resolver(listed: dict[str, Any]) -> str | None:
    expressions = listed["expr"]
    rule = rule_of([*expressions[:1], *expressions[-1:]], outgoing=True) if listed["comment"] == "resolver" else None
    return None if rule is None else rule.destination


def _all(listing: Sequence[NftObject], kind: str) -> list[NftObject]:
    return [each for each in listing if kind in each]
