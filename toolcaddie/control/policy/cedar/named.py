"""Names of entities in Cedar rules that nothing has: such a rule waits for what never comes, and no call shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from toolcaddie.control.policy.cedar.interest import entities_in
from toolcaddie.control.policy.cedar.short_forms import quoted
from toolcaddie.control.policy.cedar.statements import Statement
from toolcaddie.control.policy.cedar.unused import CHANNELS, KnownCallers, meant, other_case
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.util.suggest import close_names


def unknown_names(rules: Iterable[Statement], catalog: Catalog, callers: KnownCallers) -> Iterator[str]:
    """Yields a sentence, with file and line, for each tool, category, source and bot in rules that does not exist, and for each
    role or channel that looks like a known one, in the order of the rules. With an empty catalog, tools, categories and sources
    are not judged."""
    there = _existing(catalog, callers)
    for rule in rules:
        for kind, name in sorted(entities_in(rule), key=lambda entity: (_start(rule, entity), entity)):
            place = rule.place_of(_pattern(kind, name))
            key = f"{place}: {kind}::{quoted(name)}"
            if kind in there:
                if name not in there[kind]:
                    yield f"{key}: there is no {kind.lower()} {name!r}{meant(name, there[kind])}"
            elif kind == "Bot":
                yield from other_case(key, "bot", name, callers.used_bots)
            elif kind == "Role":
                yield from other_case(key, "role", name, callers.used_roles)
            elif kind == "Channel" and name not in CHANNELS and close_names(name, CHANNELS):
                yield f"{key}: no request comes by the channel {name!r}{meant(name, CHANNELS)}"


def _existing(catalog: Catalog, callers: KnownCallers) -> Mapping[str, Sequence[str]]:
    """Returns all names of those kinds of which none but these exist."""
    names: dict[str, Sequence[str]] = {}
    if len(catalog):
        names["Tool"] = [*(tool.name for tool in catalog), *RESERVED_NAMES]
        names["Category"] = [category.name for category in catalog.categories]
        names["Source"] = sorted({tool.source for tool in catalog})
    if callers.bots is not None:
        names["Bot"] = sorted(callers.bots)
    return names


def _pattern(kind: str, name: str) -> str:
    """Returns a regular expression that finds an entity in the text of a rule."""
    return rf"\b{re.escape(kind)}\s*::\s*{re.escape(quoted(name))}"


def _start(rule: Statement, entity: tuple[str, str]) -> int:
    found = re.search(_pattern(*entity), rule.text)
    return 0 if found is None else found.start()
