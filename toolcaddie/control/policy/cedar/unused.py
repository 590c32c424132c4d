"""Names in the table `[policy]` that nothing has: a misspelt name in `deny` or `ask` protects nothing, and no call shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from toolcaddie.control.people import ROLE
from toolcaddie.control.policy.cedar.short_forms import Restrictions
from toolcaddie.core.catalog import Catalog
from toolcaddie.util.suggest import close_names

CHANNELS = ("gateway", "mcp", "chat", "run", "call", "command line", "console")
"""The ways by which requests, and answers of approvers, come. An application may have others, but not with a settings file."""


class Written(Struct, frozen=True, kw_only=True):
    """The names that the table `[policy]` has."""

    tables: Mapping[str, Restrictions]
    """Restrictions by the key of their table, such as `policy.roles.guest`."""
    never_ask: tuple[str, ...]
    bots: tuple[str, ...]
    roles: tuple[str, ...]
    channels: tuple[str, ...]
    approvers: tuple[str, ...]
    ruled_roles: frozenset[str] = frozenset()
    """Roles that rules in Cedar name."""


class KnownCallers(Struct, frozen=True, kw_only=True):
    """The bots and roles that are known. Others may exist, because applications, keys and identity providers name them freely."""

    bots: frozenset[str] | None = None
    """All bots that there can be; None: requests may name any bot."""
    used_bots: frozenset[str] = frozenset()
    """Bots that keys or tools name."""
    used_roles: frozenset[str] = frozenset()
    """Roles that keys, tools or settings name."""
    used_people: frozenset[str] = frozenset()
    """Ids of principals that keys name."""


def unused(written: Written, catalog: Catalog, callers: KnownCallers) -> Iterator[str]:
    """Yields a sentence for each name that no tool, category or bot has, and for each bot or role that differs from a known one
    only in case."""
    if len(catalog):
        yield from _unused_names(written, catalog)
    for bot in written.bots:
        if callers.bots is None:
            yield from other_case(f"policy.bots.{bot}", "bot", bot, callers.used_bots)
        elif bot not in callers.bots:
            yield f"policy.bots.{bot}: there is no bot {bot!r}{meant(bot, callers.bots)}"
    for role in written.roles:
        yield from other_case(f"policy.roles.{role}", "role", role, callers.used_roles)
    for channel in written.channels:
        if channel not in CHANNELS:
            yield f"policy.channels.{channel}: no request comes by the channel {channel!r}{meant(channel, CHANNELS)}"
    for approver in written.approvers:
        if approver.startswith(ROLE):
            yield from other_case("policy.approvers", "role", approver.removeprefix(ROLE), callers.used_roles)
        elif approver not in callers.used_people:
            yield from _role_without_prefix(approver, callers.used_roles.union(written.roles, written.ruled_roles))


def expression(pattern: str) -> re.Pattern[str]:
    """Returns a name with `*` as a regular expression."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _unused_names(written: Written, catalog: Catalog) -> Iterator[str]:
    """Yields a sentence for each pattern that no tool matches, and for each category that no tool is in."""
    tools = [tool.name for tool in catalog]
    categories = [category.name for category in catalog.categories]
    lists = [("policy.never_ask", written.never_ask)]
    for key, table in written.tables.items():
        lists += [(f"{key}.deny", table.deny), (f"{key}.ask", table.ask)]
        for category in table.categories or ():
            if category not in categories:
                yield f"{key}.categories: there is no category {category!r}{meant(category, categories)}"
    for key, patterns in lists:
        for pattern in patterns:
            if not any(map(expression(pattern).fullmatch, tools)):
                yield f"{key}: no tool is called {pattern!r}{meant(pattern.replace('*', ''), tools)}"


def _role_without_prefix(approver: str, roles: frozenset[str]) -> Iterator[str]:
    """Yields a sentence for an approver that is called like a role, in whichever case, or with an s behind it."""
    for role in sorted(roles):
        if approver.lower().removesuffix("s") == role.lower().removesuffix("s"):
            yield f"policy.approvers: {approver!r} is the id of a person; for the role, write {ROLE + role!r}"


def other_case(key: str, kind: str, name: str, used: frozenset[str]) -> Iterator[str]:
    """Yields a sentence if a name differs from one in use only in case."""
    alike = sorted(other for other in used if other.lower() == name.lower())
    if alike and name not in used:
        yield f"{key}: the {kind} of callers is {alike[0]!r}, not {name!r}; upper and lower case differ"


def meant(name: str, names: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name: the existing names that look like it."""
    close = close_names(name, names)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""
