"""Differences that no plugin made: a model has changed what it got before it applies it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from security.host_calls import Forgery
from toolcaddie.core.schema import digest


def _forged(change: Callable[[Any, Any], None]) -> Forgery:
    """Returns a forgery that changes a copy of the difference, and the first of its changes."""

    def forge(diff: Any) -> Any:
        forged = copy.deepcopy(diff)
        changes = forged.get("changes") or [{}]
        change(forged, changes[0])
        return forged

    return forge


def _rebased(forgery: Forgery) -> Forgery:
    """Returns the forgery with the base of its own changes, which a model can compute as the plugin does."""

    def forge(diff: Any) -> Any:
        forged = forgery(diff)
        names = sorted(((str(each.get("target")), each.get("before")) for each in forged["changes"]), key=itemgetter(0))
        return {**forged, "base": digest([[target, before] for target, before in names])[:32]}

    return forge


_OTHER_TARGETS: tuple[Forgery, ...] = (
    _forged(lambda diff, first: first.update(target=f"{first.get('target')}\nother", before=None)),
    _forged(lambda diff, first: first.update(target="../" + str(first.get("target")), before=None)),
    _forged(lambda diff, first: first.update(target="--root=/", before=None)),
    _forged(lambda diff, first: first.update(action="no-op")),
    _forged(lambda diff, first: first.update(action="modify", after={**(first.get("after") or {}), "evil": "yes"})),
    _forged(lambda diff, first: diff["changes"].append({**first, "target": "added-by-the-model", "before": None})),
)
FORGERIES: tuple[Forgery, ...] = (
    *(_rebased(each) for each in _OTHER_TARGETS),
    _forged(lambda diff, first: first.update(target=f"{first.get('target')}\nother")),
    _forged(lambda diff, first: first.update(target="../" + str(first.get("target")))),
    _forged(lambda diff, first: first.update(target="--root=/")),
    _forged(lambda diff, first: first.update(after={**(first.get("after") or {}), "evil": "yes"})),
    _forged(lambda diff, first: first.update(action="no-op")),
    _forged(lambda diff, first: first.update(action="delete", after=None)),
    _forged(lambda diff, first: first.update(before=None)),
    _forged(lambda diff, first: diff.update(base="0" * 32)),
    _forged(lambda diff, first: diff.update(base="")),
    _forged(lambda diff, first: diff["changes"].append({**first, "target": "added-by-the-model"})),
    _forged(lambda diff, first: diff["changes"].append({**first, "after": None})),
    _forged(lambda diff, first: diff.update(plugin="shell")),
    _forged(lambda diff, first: diff.update(changes="all")),
    _forged(lambda diff, first: diff.update(changes=[])),
    _forged(lambda diff, first: diff.pop("plugin")),
)

_ADDRESS = {"addresses": ["10.97.0.1/24"]}
HONEST_STATES: Mapping[str, Any] = {
    "systemd": {"other.service": {"active": False}},
    "network": {"nic1": _ADDRESS},
    "packagekit": {"alpha": {"installed": True}},
    "firewall": {"evil": {"chain": "input", "action": "drop", "protocol": "tcp", "port": 22}},
    "users": {"evil": {"uid": 40077, "comment": "evil"}},
    "storage": {"{folder}/mnt/a": {"source": "tmpfs"}},
    "lxc": {"web2": {"running": True}},
    "openflow": {"br1/table=0,priority=9,tcp": {"actions": "drop"}},
    "privacy": {"profile": {"resolvers": ["10.88.0.2"], "allow": []}},
}
"""A change of each plugin as an operator may want it. None has a listed effect."""
LISTED_STATES: Mapping[str, Any] = {
    "firewall": {"guest": {"chain": "input", "action": "accept", "protocol": "tcp", "port": 81}},
    "network": {"nic0": {"mtu": 1400}},
    "users": {"guest": {"comment": "A guest"}},
    "lxc": {"web1": {"running": True}},
}
HOSTILE_STATES: Mapping[str, tuple[Any, ...]] = {
    "systemd": (
        {"web.service\nother.service": {"active": False}},
        {"../other.service": {"active": False}},
        {"secret.service": {"active": False}},
        {"other": {"active": False}},
        {"*.service": None},
        {"other.service": None},
        {"other.service": {"active": "false"}},
        {"poweroff.target": {"active": True}},
    ),
    "network": (
        {"nic1\nnic0": _ADDRESS},
        {"../nic1": _ADDRESS},
        {"nic1 down": {"up": True}},
        {"--all": {"up": False}},
        {"nic1": {"addresses": ["10.97.0.1/24; ip link delete nic0"]}},
        {"evil": {"kind": "veth", "peer": "evil\nevil2"}},
        {"evil": {"kind": "tun"}},
        {"route 0.0.0.0/0\n": {"interface": "lo"}},
        {"nic1": None},
        {"lo": None},
    ),
    "packagekit": (
        {"alpha\nbeta": {"installed": True}},
        {"alpha/stable": {"installed": True}},
        {"alpha=1.0": {"installed": True}},
        {"alpha-": {"installed": True}},
        {"gamma+": {"installed": False}},
        {"./evil.deb": {"installed": True}},
        {"--allow-unauthenticated": {"installed": True}},
        {"-o=DPkg::Pre-Invoke::=id": {"installed": True}},
        {"^beta.*": {"installed": True}},
        {"beta*": {"installed": True}},
        {"needs-alpha": {"installed": True}},
        {"base-os": {"installed": False}},
        {"gamma": None},
        {"gamma": {"installed": False}},
    ),
    "firewall": (
        {"evil\n": {"chain": "input", "action": "drop"}},
        {"evil; flush ruleset": {"chain": "input", "action": "drop"}},
        {"evil": {"chain": "input; }", "action": "drop"}},
        {"evil": {"chain": "input", "action": "drop; flush ruleset"}},
        {"evil": {"chain": "input", "action": "drop", "interface": 'lo" drop; flush ruleset; "'}},
        {"evil": {"chain": "input", "action": "drop", "source": "10.0.0.0/8 accept"}},
        {"evil": {"chain": "input", "action": "jump others"}},
        {"table inet others": None},
        {"policy input": None},
        {"policy input": {"action": "drop"}},
    ),
    "users": (
        {"evil\nroot": {"uid": 40077}},
        {"evil:x:0:0::/:/bin/sh": {"uid": 40077}},
        {"--root": {"uid": 40077}},
        {"evil": {"uid": 0}},
        {"root": {"locked": False}},
        {"guest": {"groups": ["sudo"]}},
        {"guest": {"shell": "/bin/sh\nroot::0:0::/:/bin/sh"}},
        {"guest": {"comment": "x:0:0:root:/root:/bin/sh\nevil:x:0:0::/:/bin/sh"}},
        {"guest": {"home": "/home/../../etc"}},
        {"bob": None},
        {"group:sudo": None},
    ),
    "storage": (
        {"/": {"source": "tmpfs"}},
        {"/etc": {"source": "tmpfs"}},
        {"{folder}/mnt/a/../../vault": {"source": "tmpfs"}},
        {"{folder}/mnt/a": {"source": "/"}},
        {"{folder}/mnt/a": {"source": "{folder}/vault"}},
        {"{folder}/mnt/a": {"source": "tmpfs", "options": ["rw,suid"]}},
        {"{folder}/mnt/a": {"source": "tmpfs", "size": "all"}},
        {"{folder}/mnt/a\n": {"source": "tmpfs"}},
    ),
    "lxc": (
        {"../web2": {"running": True}},
        {"web2/state": {"running": True}},
        {"web2?project=other": {"running": True}},
        {"web2\n": {"running": True}},
        {"evil": {"image": "https://evil.example/image", "running": True}},
        {"web2": {"profiles": ["privileged"]}},
        {"web2": {"security.privileged": "true"}},
        {"web2": None},
    ),
    "openflow": (
        {"br1/table=0,priority=9,tcp\n": {"actions": "drop"}},
        {"../br1/table=0,priority=9": {"actions": "drop"}},
        {"br1/table=0,priority=9,actions=drop": {"actions": "drop"}},
        {"br1/": {"actions": "normal"}},
        {"br1/table=0,priority=9,tcp": {"actions": "drop\nadd-flow br0 actions=drop"}},
        {"br1/table=0,priority=9,tcp": {"actions": "learn(table=1)"}},
        {"--strict/table=0": {"actions": "drop"}},
        {"br0/table=3,priority=7,tcp,tp_dst=80": None},
    ),
    "privacy": (
        {"profile\n": {"resolvers": []}},
        {"profile": {"resolvers": ["10.88.0.2; flush ruleset"]}},
        {"profile": {"resolvers": ["0.0.0.0/0"]}},
        {"profile": {"allow": [{"host": "10.0.0.1 accept", "protocol": "tcp", "port": 1}]}},
        {"profile": {"allow": [{"host": "10.0.0.1", "protocol": "tcp; accept", "port": 1}]}},
        {"profile": {"allow": [{"host": "10.0.0.1", "protocol": "udp", "port": 53}]}},
        {"others": {"resolvers": []}},
        {"profile": {"resolvers": [], "allow": [], "intact": False}},
    ),
}
