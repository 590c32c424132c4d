"""Suggestions, each with the numbers on which it rests and the lines that would change it.

A suggestion about few events would be noise, so each kind has a smallest number of them. Lines for the settings contain what the
settings have already. They are only for those who see the figures of all tenants, because the settings hold for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from toolcaddie.app.settings import Settings
from toolcaddie.core.catalog import View
from toolcaddie.doors.console.analytics.tallies import CategoryUse, Tallies, Times, ToolUse
from toolcaddie.evaluation.misses import new_words
from toolcaddie.ports.selection import Selector
from toolcaddie.sources.mcp.desktop import toml_of

LEAST_SENT = 50
"""The smallest number of arrays that contained a tool before it counts as one that nobody needs."""
LEAST_REQUESTS = 50
"""The smallest number of requests before a tool counts as one that most of them need."""
LEAST_CALLS = 10
"""The smallest number of calls of a tool before its share of failures counts."""
LEAST_TIMES = 3
"""The smallest number of times that a search was in vain, or that a tool was called that does not exist."""
LEAST_SCORE = 0.4
"""The smallest score of a tool in a search for the words, from which it may be what was meant."""
OFTEN = 0.5
"""The smallest number of calls for each request of a tool that should always be sent."""
MOSTLY = 0.5
"""The share of failures above which a tool does not work."""

_EACH = 3
"""The largest number of suggestions of a kind."""
_FITTING = 3
"""The largest number of tools that may be what words mean."""
_NAMES = 10
"""The largest number of names in a suggestion."""
_SETTINGS = "toolcaddie.toml"
_HINTS = "hints.jsonl"

Kind = Literal["unused", "category", "pinned", "failing", "misnamed", "hidden", "searched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change that the figures suggest."""

    kind: Kind
    name: str = ""
    """The words of the search, or the name that the model called; empty: it is about `names`."""
    names: Sequence[str] = ()
    """The tools that it is about, or the categories."""
    number: int
    """The number on which it rests: arrays sent, calls, failed calls, searches."""
    of: int = 0
    """The whole of which that is a part: requests, or calls; 0: there is none."""
    file: str = ""
    lines: str = ""
    """Lines for the file; empty: there are none, or the reader may not change it."""


def suggestions_of(
    tallies: Tallies, view: View, selector: Selector, settings: Settings, *, requests: int, may_change: bool
) -> Sequence[Suggestion]:
    """Returns the suggestions. `selector`: searches the view. `may_change`: the reader sees the figures of all tenants, so lines
    for the settings too."""
    known = settings if may_change else None
    unused = _uncalled_categories(tallies.categories, view)
    wanted = [
        *(_misnamed(times, view, selector) for times in _often(tallies.unknown)),
        *(_with_hints("searched", times, view, selector) for times in _often(tallies.searches)),
    ]
    needed = {name for suggestion in wanted for name in suggestion.names}
    return [
        *_failing(tallies.failing),
        *wanted,
        *_pinned(tallies.called, view, settings, known, requests),
        *_unused_categories(unused, view, known),
        *_unused([tool for tool in tallies.idle if tool.name not in needed], {use.name for use in unused}, known),
    ]


def _often(times: Sequence[Times]) -> Sequence[Times]:
    return [each for each in times[:_EACH] if each.number >= LEAST_TIMES]


def _failing(tools: Sequence[ToolUse]) -> Iterator[Suggestion]:
    bad = [tool for tool in tools if tool.calls >= LEAST_CALLS and tool.failed / tool.calls > MOSTLY]
    for tool in bad[:_EACH]:
        yield Suggestion(kind="failing", names=(tool.name,), number=tool.failed, of=tool.calls)


def _misnamed(times: Times, view: View, selector: Selector) -> Suggestion:
    if times.known:
        return Suggestion(kind="hidden", name=times.name, names=(times.name,), number=times.number)
    return _with_hints("misnamed", times, view, selector)


def _with_hints(kind: Kind, times: Times, view: View, selector: Selector) -> Suggestion:
    """Returns a suggestion about words, with the tools that they fit best, and a line of a file of hints for each of these that
    lacks some of them. Only a person knows which of the tools is meant, if any."""
    hits = selector.search(view, times.name, _FITTING)
    tools = [hit.tool for hit in hits if hit.score >= LEAST_SCORE]
    words = {tool.name: new_words(times.name, tool, view.catalog) for tool in tools}
    lines = [msgspec.json.encode({"name": name, "hints": new}).decode() for name, new in words.items() if new]
    return Suggestion(
        kind=kind,
        name=times.name,
        names=list(words),
        number=times.number,
        file=_HINTS if lines else "",
        lines="\n".join(lines),
    )


def _pinned(
    tools: Sequence[ToolUse], view: View, settings: Settings, known: Settings | None, requests: int
) -> Iterator[Suggestion]:
    """Yields the tools that most requests need and that are not always sent yet."""
    pins = settings.gateway.pinned
    names = [
        tool
        for tool in tools[:_NAMES]
        if requests >= LEAST_REQUESTS
        and tool.calls / requests >= OFTEN
        and (found := view.get(tool.name)) is not None
        and not view.catalog.is_core(found)
        and not any(fnmatchcase(tool.name, pin) for pin in pins)
    ]
    if names:
        lines = _lines("gateway", "pinned", (*pins, *(tool.name for tool in names)), known)
        yield _of_settings("pinned", names, sum(tool.calls for tool in names), lines, of=requests)


def _uncalled_categories(uses: Sequence[CategoryUse], view: View) -> Sequence[CategoryUse]:
    """Returns the categories that could be switched off; none if there are tools without a category, which would go too."""
    if any(tool.category is None for tool in view):
        return ()
    return [use for use in uses if use.tools and not use.calls and use.sent >= LEAST_SENT][:_NAMES]


def _unused_categories(uses: Sequence[CategoryUse], view: View, known: Settings | None) -> Iterator[Suggestion]:
    if uses:
        names = {use.name for use in uses}
        rest = [category.name for category in view.catalog.categories if category.name not in names]
        lines = _lines("catalog", "categories", rest, known)
        yield _of_settings("category", uses, sum(use.sent for use in uses), lines)


def _unused(tools: Sequence[ToolUse], categories: set[str], known: Settings | None) -> Iterator[Suggestion]:
    idle = [tool for tool in tools if tool.known and tool.sent >= LEAST_SENT and tool.category not in categories]
    if not idle:
        return
    policy = None if known is None else known.policy
    denied = () if policy is None else policy.config.get("deny", ())
    is_cedar = policy is None or policy.type == "cedar"
    lines = _lines("policy", "deny", (*denied, *(tool.name for tool in idle[:_NAMES])), known if is_cedar else None)
    yield _of_settings("unused", idle[:_NAMES], sum(tool.sent for tool in idle[:_NAMES]), lines)


def _of_settings(
    kind: Kind, uses: Sequence[ToolUse] | Sequence[CategoryUse], number: int, lines: str, *, of: int = 0
) -> Suggestion:
    names = [use.name for use in uses]
    return Suggestion(kind=kind, names=names, number=number, of=of, file=_SETTINGS if lines else "", lines=lines)


def _lines(table: str, key: str, values: Sequence[str], known: Settings | None) -> str:
    """Returns a table with one key as TOML; empty for somebody who may not read the settings."""
    return "" if known is None else f"[{table}]\n{key} = {toml_of(values)}"
