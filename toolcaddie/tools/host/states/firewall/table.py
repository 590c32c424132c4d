"""The table `inet toolcaddie`: reads the state from its listing, and makes the commands that change it.

A rule's order and name are its comment, `100 ssh`. A rule without such a comment, in another place than its order says, or with
statements that this plugin does not make, was made or changed by another program. It is shown and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.states import Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.firewall.planning import CHAINS, OTHERS_NOTE, is_policy, packet_rule
from toolcaddie.tools.host.states.nftables import Nft, rule_of, statements
from toolcaddie.tools.host.states.nftables.command import NftObject

_COMMENT = re.compile(r"(\d{1,4}) ([A-Za-z0-9][A-Za-z0-9._-]{0,62})\Z", re.ASCII)


def state_of(listing: Sequence[NftObject]) -> State:
    """Returns the rules and policies of the table; no objects: of a table that does not exist."""
    state: dict[str, JsonObject] = {f"policy {chain}": {"action": "accept"} for chain in CHAINS}
    for chain in _all(listing, "chain"):
        if chain["name"] in CHAINS and chain.get("hook") == chain["name"]:
            state[f"policy {chain['name']}"] = {"action": chain.get("policy", "accept")}
    for listed, rule in _rules(listing):
        if rule is None:
            state[f"unknown {listed['chain']} {listed['handle']}"] = {"note": OTHERS_NOTE}
        else:
            state[rule[0]] = rule[1]
    return state


def commands(nft: Nft, listing: Sequence[NftObject], changes: Sequence[Change]) -> list[NftObject]:
    """Returns the commands that make the changes in one transaction. The rules of each chain that changes are made anew, in their
    order, behind those of other programs."""
    before = state_of(listing)
    after = {change.target: change.after for change in changes}
    wanted = {name: attributes for name, attributes in {**before, **after}.items() if attributes is not None}
    changed = [chain for chain in CHAINS if _part(before, chain) != _part(wanted, chain)]
    made: list[NftObject] = []
    for chain in changed:
        policy = wanted[f"policy {chain}"]["action"]
        hook = {"type": "filter", "hook": chain, "prio": 0, "policy": policy}
        made.append({"add": {"chain": {**nft.place, "name": chain, **hook}}})
    for listed, rule in _rules(listing):
        if rule is not None and listed["chain"] in changed:
            place = {"chain": listed["chain"], "handle": listed["handle"]}
            made.append({"delete": {"rule": {**nft.place, **place}}})
    for chain in changed:
        rules = {name: rule for name, rule in _part(wanted, chain).items() if not is_policy(name)}
        ordered = sorted(rules, key=lambda name: (rules[name]["order"], name))
        made += [{"add": {"rule": {**nft.place, **_listed(name, rules[name])}}} for name in ordered]
    return made


def _part(state: Mapping[str, JsonObject], chain: str) -> dict[str, JsonObject]:
    """Returns the rules of a chain, and its policy."""
    policy = f"policy {chain}"
    return {name: each for name, each in state.items() if name == policy or each.get("chain") == chain}


def _listed(name: str, attributes: JsonObject) -> dict[str, Any]:
    chain = attributes["chain"]
    expressions = statements(packet_rule(attributes), outgoing=chain == "output")
    return {"chain": chain, "comment": f"{attributes['order']} {name}", "expr": expressions}


def _rules(listing: Sequence[NftObject]) -> Iterator[tuple[Any, tuple[str, JsonObject] | None]]:
    """Yields each rule as it is listed, with its name and attributes; None: this plugin has not made it."""
    last: dict[str, tuple[int, str]] = {}
    names: set[str] = set()
    for listed in _all(listing, "rule"):
        chain, comment = listed["chain"], _COMMENT.match(listed.get("comment", ""))
        rule = rule_of(listed.get("expr", []), outgoing=chain == "output")
        if comment is None or rule is None or chain not in CHAINS:
            yield listed, None
            continue
        key = (int(comment[1]), comment[2])
        if key[1] in names or key[1] in CHAINS or key < last.get(chain, key):
            yield listed, None
            continue
        last[chain] = key
        names.add(key[1])
        yield listed, (key[1], {"chain": chain, "order": key[0], **msgspec.to_builtins(rule)})


def _all(listing: Sequence[NftObject], kind: str) -> list[dict[str, Any]]:
    return [each[kind] for each in listing if kind in each]
