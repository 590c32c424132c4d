"""The plugin itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from toolcaddie.core.errors import ConfigError, HostError
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.programs import place_of
from toolcaddie.tools.host.states.users.making import PROGRAMS, Maker
from toolcaddie.tools.host.states.users.planning import Rules, planned
from toolcaddie.tools.host.states.users.reading import GROUP, Accounts, read_accounts

Id = Annotated[int, Meta(ge=100, le=2_000_000_000)]

_NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 4_294_967_294}
_TEXT: dict[str, Any] = {"type": "string", "maxLength": 200}
_ATTRIBUTES: dict[str, Any] = {
    "uid": {**_NUMBER, "description": "Needed for a new user"},
    "gid": {**_NUMBER, "description": "Of a group, or of a user's primary group"},
    "groups": {
        "type": "array",
        "items": {"type": "string", "maxLength": 31},
        "maxItems": 64,
        "description": "All others",
    },
    "shell": _TEXT,
    "home": _TEXT,
    "locked": {"type": "boolean", "description": "True: no login by password"},
    "comment": _TEXT,
}
_ACTIONS = {"create": "create", "delete": "delete"}


class UsersPlugin:
    """Implements `ports.StatePlugin`."""

    name = "users"
    description = (
        "Users (accounts) by name: uid, gid, groups, shell, home, locked, comment; and groups as group:NAME: gid. "
        "A deleted user's home folder stays."
    )
    attributes: ClassVar[JsonObject] = {"type": "object", "properties": _ATTRIBUTES, "additionalProperties": False}
    may_lock_out = False

    def __init__(self, prefix: str, rules: Rules) -> None:
        self._prefix = prefix
        self._rules = rules
        self._accounts: Accounts | None = None

    async def query(self) -> State:
        self._accounts = read_accounts(self._prefix)
        return self._accounts.state

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        accounts = self._accounts or read_accounts(self._prefix)
        return planned(self._rules, accounts, target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        return (f"users.{_ACTIONS.get(change.action, 'modify')} {change.target}",)

    def question(self, change: Change) -> str:
        """Returns a question about a user who gets into a group of the system, which often gives the permissions of root."""
        accounts = self._accounts or read_accounts(self._prefix)
        before, after = change.before or {}, change.after or {}
        new = set(after.get("groups", ())).difference(before.get("groups", ()))
        for group in sorted(new):
            if self._rules.is_system(accounts.gids.get(group, self._rules.first_id)):
                return f"adds {change.target} to {group}, a group of the system"
        return ""

    async def apply(self, changes: Sequence[Change]) -> None:
        await Maker(self._prefix).make(changes)

    async def back_ends(self) -> Sequence[BackEnd]:
        missing = [program for program in PROGRAMS if place_of(program) is None]
        if missing:
            remedy = "install the package passwd (Debian) or shadow-utils (Fedora)"
            return [BackEnd(name="useradd", present=False, detail=f"missing: {', '.join(missing)}", remedy=remedy)]
        try:
            count = sum(not name.startswith(GROUP) for name in read_accounts(self._prefix).state)
        except HostError as error:
            return [BackEnd(name="useradd", present=False, detail=str(error), remedy="run the server as root")]
        if os.geteuid() != 0:
            detail = "users can be read but not changed"
            return [BackEnd(name="useradd", present=False, detail=detail, remedy="run the server as root")]
        return [BackEnd(name="useradd", present=True, detail=f"{count} users in the files of this machine")]

    async def close(self) -> None:
        """Does nothing: no connection stays open."""


def users(
    *,
    prefix: str = "",
    homes: str = "/home",
    system_groups: tuple[str, ...] = (),
    first_id: Id = 1000,
    last_id: Id = 60_000,
) -> UsersPlugin:
    """Returns the plugin. `prefix`: the folder of another system whose files are changed, such as an image. `homes`: where home
    folders are. `system_groups`: groups such as `sudo` that users may be added to; a person is always asked. `first_id`,
    `last_id`: numbers of users and groups that may be changed. Raises `ConfigError`."""
    for setting, path in (("prefix", prefix or "/"), ("homes", homes)):
        if not os.path.isabs(path) or path != os.path.normpath(path):
            raise ConfigError(f"plugin users: {setting} {path!r} is no plain absolute path")
    rules = Rules(homes=homes, system_groups=frozenset(system_groups), first_id=first_id, last_id=last_id)
    return UsersPlugin(prefix, rules)
