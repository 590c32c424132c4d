"""Reads users and groups from `passwd`, `group`, `shadow` and `shells` below `/etc`, or below that folder of a prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import State
from toolcaddie.core.tool import JsonObject

GROUP = "group:"
"""The beginning of a thing's name that is a group."""
_MOST_BYTES = 8_388_608
_NO_LOGIN = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The users and groups, as far as rules need them."""

    users: Mapping[str, JsonObject]
    gids: Mapping[str, int]
    """The number of each group."""
    members: Mapping[str, frozenset[str]]
    """The users whose supplementary group each is."""
    own_groups: frozenset[str]
    """Groups that belong to the user of the same name. They come and go with the user, and are no things of their own."""
    with_password: frozenset[str]
    """Users that have a password, locked or not."""
    shells: frozenset[str]

    @property
    def state(self) -> State:
        """The state that the plugin shows."""
        groups = {f"{GROUP}{name}": {"gid": gid} for name, gid in self.gids.items() if name not in self.own_groups}
        return {**self.users, **groups}

    def group_of(self, gid: int) -> str | None:
        """Returns the name of the group with a number."""
        return next((name for name, each in self.gids.items() if each == gid), None)


def read_accounts(prefix: str) -> Accounts:
    """Returns the users and groups. Raises `HostError` if their files cannot be read."""
    etc = Path(prefix or "/") / "etc"
    gids: dict[str, int] = {}
    members: dict[str, frozenset[str]] = {}
    for name, _, gid, names in _lines(etc / "group", 4):
        if gid.isdecimal() and name not in gids:
            gids[name] = int(gid)
            members[name] = frozenset(filter(None, names.split(",")))
    passwords = {name: password for name, password, *_ in _lines(etc / "shadow", 9)}
    users: dict[str, JsonObject] = {}
    for name, _, uid, gid, comment, home, shell in _lines(etc / "passwd", 7):
        if uid.isdecimal() and gid.isdecimal() and name not in users:
            users[name] = {
                "uid": int(uid),
                "gid": int(gid),
                "groups": sorted(group for group, inside in members.items() if name in inside),
                "shell": shell,
                "home": home,
                "locked": passwords.get(name, "").startswith("!"),
                "comment": comment,
            }
    return Accounts(
        users=users,
        gids=gids,
        members=members,
        own_groups=frozenset(name for name in users if gids.get(name) == users[name]["gid"]),
        with_password=frozenset(name for name, password in passwords.items() if password.strip("!")),
        shells=frozenset(_shells(etc / "shells")).union(_NO_LOGIN),
    )


def _lines(path: Path, fields: int) -> Iterator[list[str]]:
    """Yields the fields of each line that has so many. Others, such as those of NIS, are no local users."""
    for line in _text(path).splitlines():
        values = line.split(":")
        if len(values) == fields and values[0] and not values[0].startswith(("+", "-", "#")):
            yield values


def _shells(path: Path) -> Iterator[str]:
    if path.exists():
        yield from (line.strip() for line in _text(path).splitlines() if line.startswith("/"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise HostError(
            f"{path} cannot be read: {error.strerror}; users are managed by a server that runs as root"
        ) from error
    if len(data) > _MOST_BYTES:
        raise HostError(f"{path} has more than {_MOST_BYTES:,} bytes")
    return data.decode(errors="surrogateescape").encode(errors="backslashreplace").decode()
