"""Checks and completes the desired attributes of one rule or policy."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.nftables import ATTRIBUTES, PacketRule, network_text, port_value

CHAINS = ("input", "forward", "output")
OTHERS_NOTE = "made by another program; it is shown, and never changed here"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_RULE_ATTRIBUTES = ("chain", "order", *ATTRIBUTES)
_DEFAULT_ORDER = 100


def is_policy(target: str) -> bool:
    """Returns True for the name of a chain's policy."""
    return target.startswith("policy ")


def packet_rule(attributes: JsonObject) -> PacketRule:
    """Returns the rule of these attributes. Raises `RequestError` if they contradict each other."""
    return PacketRule(**{name: attributes[name] for name in ATTRIBUTES})


def planned(target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    """Returns all attributes after the change. Raises `RequestError`."""
    if is_policy(target):
        return _policy(target, desired, current)
    if current is not None and "note" in current:
        if desired is None or not desired.items() <= current.items():
            raise RequestError(f"{target}: it was {OTHERS_NOTE}")
        return current
    if not _NAME.match(target) or target in CHAINS:
        raise RequestError(
            f"{target[:40]!r}: a rule's name is 1 to 63 letters, digits, dots, dashes and underscores, and no chain's name"
        )
    return None if desired is None else _rule(target, desired, current)


def _policy(target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject:
    if current is None:
        raise RequestError(f"{target[:40]!r}: the policies are {', '.join(f'policy {chain}' for chain in CHAINS)}")
    after = {**current, **(desired or {})}
    if desired is None or set(after) != {"action"} or after["action"] not in ("accept", "drop"):
        raise RequestError(f"{target}: a policy has the action accept or drop, nothing else, and is never deleted")
    return after


def _rule(name: str, desired: JsonObject, current: JsonObject | None) -> JsonObject:
    if unknown := sorted(set(desired).difference(_RULE_ATTRIBUTES)):
        raise RequestError(f"{name}: a rule has no attribute {unknown[0]!r}")
    after: dict[str, Any] = {**(current or _created(name, desired)), **desired}
    if after["interface"] is not None and not _INTERFACE.match(after["interface"]):
        raise RequestError(f"{name}: interface is the name of a link, not {after['interface'][:40]!r}")
    for attribute in ("source", "destination"):
        if after[attribute] is not None:
            after[attribute] = network_text(f"{name}: {attribute}", after[attribute])
    after["port"] = port_value(name, after["port"], after["protocol"])
    try:
        packet_rule(after)
    except RequestError as error:
        raise RequestError(f"{name}: {error}") from error
    return after


def _created(name: str, desired: JsonObject) -> JsonObject:
    """Returns the attributes of a new rule of which nothing but the required ones are known."""
    if missing := [attribute for attribute in ("chain", "action") if attribute not in desired]:
        raise RequestError(f"{name}: there is no such rule; to create it, give {' and '.join(missing)}")
    attributes = msgspec.to_builtins(PacketRule(action=desired["action"]))
    return {"chain": desired["chain"], "order": _DEFAULT_ORDER, **attributes}
