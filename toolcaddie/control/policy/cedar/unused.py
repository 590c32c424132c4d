"""Names in the table `[policy]` that nothing has: a misspelt name in `deny` or `ask` protects nothing, and no call shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from toolcaddie.control.people import ROLE
from toolcaddie.control.policy.cedar.short_forms import Restrictions
from toolcaddie.core.catalog import Catalog
from toolcaddie.util.suggest import close_names


class Written(Struct, frozen=True, kw_only=True):
    """The names that the table `[policy]` has."""

    tables: Mapping[str, Restrictions]
    """Restrictions by the key of their table, such as `policy.roles.guest`."""
    never_ask: tuple[str, ...]
    bots: tuple[str, ...]
    roles: tuple[str, ...]
    approvers: tuple[str, ...]


class KnownCallers(Struct, frozen=True, kw_only=True):
    """The bots and roles that are known. Others may exist, because applications, keys and identity providers name them freely."""

    bots: frozenset[str] | None = None
    """All bots that there can be; None: requests may name any bot."""
    used_bots: frozenset[str] = frozenset()
    """Bots that keys or tools name."""
    used_roles: frozenset[str] = frozenset()
    """Roles that keys, tools or settings name."""


def unused(written: Written, catalog: Catalog, callers: KnownCallers) -> Iterator[str]:
    """Yields a sentence for each name that no tool, category or bot has, and for each bot or role that differs from a known one
    only in case."""
    if len(catalog):
        yield from _unused_names(written, catalog)
    for bot in written.bots:
        if callers.bots is None:
            yield from _other_case(f"policy.bots.{bot}", "bot", bot, callers.used_bots)
        elif bot not in callers.bots:
            yield f"policy.bots.{bot}: there is no bot {bot!r}{_meant(bot, callers.bots)}"
    for role in written.roles:
        yield from _other_case(f"policy.roles.{role}", "role", role, callers.used_roles)
    for approver in written.approvers:
        if approver.startswith(ROLE):
            yield from _other_case("policy.approvers", "role", approver.removeprefix(ROLE), callers.used_roles)


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
                yield f"{key}.categories: there is no category {category!r}{_meant(category, categories)}"
    for key, patterns in lists:
        for pattern in patterns:
            if not any(map(expression(pattern).fullmatch, tools)):
                yield f"{key}: no tool is called {pattern!r}{_meant(pattern.replace('*', ''), tools)}"


def _other_case(key: str, kind: str, name: str, used: frozenset[str]) -> Iterator[str]:
    alike = sorted(other for other in used if other.lower() == name.lower())
    if alike and name not in used:
        yield f"{key}: the {kind} of callers is {alike[0]!r}, not {name!r}; upper and lower case differ"


def _meant(name: str, names: Iterable[str]) -> str:
    close = close_names(name, names)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""
