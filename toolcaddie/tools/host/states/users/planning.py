"""Judges changes of users and groups, and plans what they lead to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.users.reading import GROUP, Accounts

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MOST_COMMENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of the settings."""

    homes: str = "/home"
    """The folder of the home folders."""
    system_groups: frozenset[str] = frozenset()
    """Groups of the system, such as `sudo`, that users may be added to."""
    first_id: int = 1000
    last_id: int = 60_000
    protected_uids: frozenset[int] = field(default_factory=lambda: frozenset({0, os.getuid(), os.geteuid()}))
    """Users that are never changed: root, and the one who runs this server."""

    def is_system(self, number: int) -> bool:
        return not self.first_id <= number <= self.last_id


def planned(
    rules: Rules, accounts: Accounts, target: str, desired: JsonObject | None, current: JsonObject | None
) -> JsonObject | None:
    """Returns the attributes after a change, as `ports.StatePlugin.planned` does. Raises `RequestError`."""
    is_group = target.startswith(GROUP)
    if not _NAME.fullmatch(target.removeprefix(GROUP)):
        raise RequestError(
            f"{target[:80]!r} is no name; it has small letters, digits, - and _ , and 'group:' before a group's"
        )
    if desired is None and current is None:
        return None
    if current is not None:
        number = current["gid"] if is_group else current["uid"]
        changes = desired is None or any(current.get(key) != value for key, value in desired.items())
        if changes and (rules.is_system(number) or (not is_group and number in rules.protected_uids)):
            raise RequestError(f"{target} belongs to the system, or runs this server, and is never changed")
    return (_group if is_group else _user)(rules, accounts, target, desired, current)


def _group(
    rules: Rules, accounts: Accounts, target: str, desired: JsonObject | None, current: JsonObject | None
) -> JsonObject | None:
    if desired is None:
        return None
    if other := sorted(set(desired).difference({"gid"})):
        raise RequestError(f"{target} is a group, and has no {other[0]}")
    if current is not None:
        return {"gid": _unchanged(target, "gid", desired, current)}
    name = target.removeprefix(GROUP)
    if name in accounts.own_groups:
        raise RequestError(f"{target} is the group of the user {name}, and comes and goes with it")
    gid = _new_number(rules, target, "gid", desired, accounts.gids)
    return {"gid": gid}


def _user(
    rules: Rules, accounts: Accounts, name: str, desired: JsonObject | None, current: JsonObject | None
) -> JsonObject | None:
    if desired is None:
        if current is not None:
            _check_deletion(rules, accounts, name, current)
        return None
    if current is None:
        uids = {each: attributes["uid"] for each, attributes in accounts.users.items()}
        uid = _new_number(rules, name, "uid", desired, uids)
        gid = _new_gid(rules, accounts, name, desired, uid)
        defaults = {"groups": [], "shell": "/bin/sh", "home": f"{rules.homes}/{name}", "locked": True, "comment": ""}
    else:
        uid, gid = (_unchanged(name, key, desired, current) for key in ("uid", "gid"))
        defaults = dict(current)
    after = {**defaults, **desired, "uid": uid, "gid": gid}
    after["groups"] = sorted(set(after["groups"]))
    before = current or {}
    changed = {key for key in after if before.get(key) != after[key]}
    if after["locked"] is False and before.get("locked", True) and name not in accounts.with_password:
        raise RequestError(f"{name} has no password, so it cannot be unlocked; a person sets the password first")
    _check_groups(rules, accounts, set(after["groups"]).symmetric_difference(before.get("groups", ())))
    for attributes in (after, before):  # also the old values, so that the change can be undone
        _check_values(rules, accounts, name, {key: attributes[key] for key in changed.intersection(attributes)})
    return after


def _check_deletion(rules: Rules, accounts: Accounts, name: str, current: JsonObject) -> None:
    """Raises `RequestError` for a user that must not be deleted, or could not be made again in the same way."""
    if not current["locked"]:
        raise RequestError(f"{name} is not locked; only a user that was locked before (locked: true) can be deleted")
    _new_gid(rules, accounts, name, current, current["uid"])
    _check_groups(rules, accounts, set(current["groups"]))
    _check_values(rules, accounts, name, current)


def _check_groups(rules: Rules, accounts: Accounts, groups: Iterable[str]) -> None:
    """Raises `RequestError` for a group that nobody may be added to or taken from."""
    for group in groups:
        if not _NAME.fullmatch(group):
            raise RequestError(f"groups: {group[:80]!r} is no name of a group")
        if rules.is_system(accounts.gids.get(group, rules.first_id)) and group not in rules.system_groups:
            raise RequestError(
                f"groups: {group} is a group of the system; only an operator can allow it (system_groups)"
            )


def _check_values(rules: Rules, accounts: Accounts, name: str, values: Mapping[str, Any]) -> None:
    """Raises `RequestError` for a value that no user may have."""
    if "shell" in values and values["shell"] not in accounts.shells:
        known = ", ".join(sorted(accounts.shells))
        raise RequestError(f"shell: {values['shell'][:80]!r} is not in /etc/shells; there are {known}")
    if "home" in values:
        _check_home(rules, accounts, name, values["home"])
    comment = values.get("comment", "")
    if len(comment) > _MOST_COMMENT or ":" in comment or not comment.isprintable():
        raise RequestError(f"comment: at most {_MOST_COMMENT} printable characters, without a colon")


def _check_home(rules: Rules, accounts: Accounts, name: str, home: str) -> None:
    folder, _, last = home.rpartition("/")
    if folder != rules.homes or not _FOLDER.fullmatch(last):
        raise RequestError(f"home: {home[:80]!r} is not a folder in {rules.homes}")
    if owner := next((other for other, each in accounts.users.items() if each["home"] == home and other != name), None):
        raise RequestError(f"home: {home} is that of {owner}")


def _new_number(rules: Rules, target: str, key: str, desired: JsonObject, numbers: Mapping[str, int]) -> int:
    """Returns the number that a new user or group gets. Raises `RequestError` if none is given that it may have."""
    taken = set(numbers.values())
    free = next((each for each in range(rules.first_id, rules.last_id + 1) if each not in taken), None)
    number = desired.get(key)
    if number is None:
        raise RequestError(f"{target} is new and needs a {key}; {free} is free")
    if rules.is_system(number) or number in taken:
        raise RequestError(f"{target}: the {key} {number} is taken or belongs to the system; {free} is free")
    return int(number)


def _new_gid(rules: Rules, accounts: Accounts, name: str, desired: JsonObject, uid: int) -> int:
    """Returns the number of a new user's primary group: a group of its own, unless one that exists is named by its number."""
    gid = int(desired.get("gid", uid))
    group = accounts.group_of(gid)
    if rules.is_system(gid) and group not in rules.system_groups:
        raise RequestError(
            f"{name}: the gid {gid} belongs to the system; only an operator can allow it (system_groups)"
        )
    if group not in (None, name) and "gid" not in desired:
        raise RequestError(f"{name}: the gid {gid} is that of the group {group}; give the gid that it should have")
    if group is None and name in accounts.gids:
        raise RequestError(f"{name}: there is a group of this name; give its gid, {accounts.gids[name]}, to use it")
    return gid


def _unchanged(target: str, key: str, desired: JsonObject, current: JsonObject) -> int:
    """Returns a number that never changes, because files keep the old one. Raises `RequestError` for another one."""
    number: int = current[key]
    if desired.get(key, number) != number:
        raise RequestError(
            f"{target} has the {key} {number}, which cannot be changed: its files would belong to nobody"
        )
    return number
