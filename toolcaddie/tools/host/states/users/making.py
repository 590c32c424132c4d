"""Makes changes of users and groups, by `useradd` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import Change
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.programs import run
from toolcaddie.tools.host.states.users.reading import GROUP, read_accounts

PROGRAMS = ("useradd", "usermod", "userdel", "groupadd", "groupdel")

_ORDER = ("create group", "delete user", "create user", "modify user", "delete group")
_OPTIONS = {"home": "--home", "shell": "--shell", "comment": "--comment"}


class Maker:
    """Runs the programs on the files of this machine, or of a prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def make(self, changes: Sequence[Change]) -> None:
        """Makes the changes, those first that others need. Raises `HostError`."""
        steps = [
            (f"{change.action} {'group' if change.target.startswith(GROUP) else 'user'}", change) for change in changes
        ]
        for step, change in sorted(steps, key=lambda each: _ORDER.index(each[0])):
            name = change.target.removeprefix(GROUP)
            match step:
                case "create group":
                    await self._run("groupadd", "--gid", str(_of(change.after)["gid"]), name=name)
                case "delete group":
                    await self._delete_group(name)
                case "create user":
                    await self._create_user(name, _of(change.after))
                case "modify user":
                    await self._modify_user(name, _of(change.before), _of(change.after))
                case "delete user":
                    await self._delete_user(name)

    async def _create_user(self, name: str, after: JsonObject) -> None:
        gid = str(after["gid"])
        has_group = read_accounts(self._prefix).group_of(after["gid"]) is not None
        if not has_group:
            await self._run("groupadd", "--gid", gid, name=name)
        options = [f"{option}={after[key]}" for key, option in _OPTIONS.items()]
        numbers = ("--uid", str(after["uid"]), "--gid", gid, "--groups", ",".join(after["groups"]))
        try:
            await self._run("useradd", "--create-home", *numbers, *options, name=name)
        except BaseException:
            if not has_group:
                with suppress(HostError):  # a user who exists all the same has it, and is deleted together with it
                    await self._run("groupdel", name=name)
            raise

    async def _modify_user(self, name: str, before: JsonObject, after: JsonObject) -> None:
        options = [f"{option}={after[key]}" for key, option in _OPTIONS.items() if before[key] != after[key]]
        if before["groups"] != after["groups"]:
            options.append(f"--groups={','.join(after['groups'])}")
        if options:
            await self._run("usermod", *options, name=name)
        if before["locked"] != after["locked"]:
            await self._run("usermod", "--lock" if after["locked"] else "--unlock", name=name)

    async def _delete_user(self, name: str) -> None:
        """Deletes a user, and the group of its own if nobody else is in it. The home folder stays."""
        is_own = name in read_accounts(self._prefix).own_groups
        await self._run("userdel", name=name)
        accounts = read_accounts(self._prefix)
        if is_own and name in accounts.gids and not accounts.members[name]:
            await self._run("groupdel", name=name)

    async def _delete_group(self, name: str) -> None:
        members = read_accounts(self._prefix).members.get(name)
        if members:
            raise HostError(
                f"the group {name} still has members: {', '.join(sorted(members)[:5])}; take it from them first"
            )
        await self._run("groupdel", name=name)

    async def _run(self, program: str, *options: str, name: str) -> None:
        prefix = ("--prefix", self._prefix) if self._prefix else ()
        await run(program, *prefix, *options, "--", name)


def _of(attributes: JsonObject | None) -> JsonObject:
    assert attributes is not None
    return attributes
