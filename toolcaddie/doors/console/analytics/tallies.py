"""The lists of the page: sums of the trail by category and by tool, beside the tools of the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from msgspec import Struct

from toolcaddie.core.catalog import View
from toolcaddie.storage.figures import OTHERS, Figures, Use
from toolcaddie.storage.sums import Topic


class CategoryUse(Struct, frozen=True, kw_only=True, gc=False):
    """The use of a category. Shares are those of all tools of the period."""

    name: str
    """Empty: the tools that belong to no category, such as those of clients and those that have left the catalog."""
    tools: int
    """Number of its tools in the catalog."""
    matched: int
    """Requests that matched it."""
    sent: int
    """Tools of it in all arrays that were sent; a tool counts once for each array."""
    calls: int
    failed: int


class ToolUse(Struct, frozen=True, kw_only=True, gc=False):
    """The use of a tool."""

    name: str
    category: str
    sent: int
    """Arrays that contained it."""
    calls: int
    failed: int
    known: bool
    """True: it is in the catalog, and the reader may read about it."""


class Times(Struct, frozen=True, kw_only=True, gc=False):
    """Words of a search, or the name of a tool that does not exist, with the number of times."""

    name: str
    number: int
    known: bool = False
    """True: the catalog has a tool of this name, which was hidden from the caller or is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """All lists, whole."""

    categories: Sequence[CategoryUse]
    """Categories that were used, the most called first."""
    idle: Sequence[ToolUse]
    """Tools that were sent and never called, the most sent first."""
    unsent: Sequence[ToolUse]
    """Tools of the catalog that were neither sent nor called, in the order of the catalog."""
    searches: Sequence[Times]
    """Searches that found nothing, the most frequent first."""
    unknown: Sequence[Times]
    """Calls of tools that do not exist, the most frequent first."""
    failing: Sequence[ToolUse]
    """Tools whose calls failed, those with the most failures first."""
    called: Sequence[ToolUse]
    """Tools that were called, the most called first."""


LISTS = tuple(field.name for field in fields(Tallies) if field.name != "called")
"""Names of the lists that have a page of their own."""

Uses = Mapping[Topic, Mapping[str, Use]]
_TOPICS: tuple[Topic, ...] = ("tools", "categories", "searches", "unknown")


async def uses_of(figures: Figures, period: str, tenant: str | None) -> Uses:
    """Returns the sums that the lists are made of. Raises `StorageError`."""
    return {topic: await figures.uses(topic, period, tenant) for topic in _TOPICS}


def tallies_of(uses: Uses, view: View) -> Tallies:
    """Returns the lists. `view`: the tools that the reader may read about."""
    tools = [_tool(name, use, view) for name, use in uses["tools"].items() if name != OTHERS]
    called = [tool for tool in tools if tool.calls]
    names = {tool.name for tool in tools if tool.calls or tool.sent}
    return Tallies(
        categories=sorted(_categories(uses, view), key=lambda each: (-each.calls, -each.sent, each.name)),
        idle=sorted((tool for tool in tools if tool.sent and not tool.calls), key=lambda tool: (-tool.sent, tool.name)),
        unsent=[
            ToolUse(name=tool.name, category=tool.category or "", sent=0, calls=0, failed=0, known=True)
            for tool in view
            if tool.name not in names
        ],
        searches=_times(uses["searches"], None),
        unknown=_times(uses["unknown"], view),
        failing=sorted((tool for tool in called if tool.failed), key=lambda tool: (-tool.failed, tool.name)),
        called=sorted(called, key=lambda tool: (-tool.calls, tool.name)),
    )


def _tool(name: str, use: Use, view: View) -> ToolUse:
    tool = view.get(name)
    return ToolUse(
        name=name,
        category="" if tool is None else tool.category or "",
        sent=use.sent,
        calls=use.number,
        failed=use.failed,
        known=tool is not None,
    )


def _categories(uses: Uses, view: View) -> Iterator[CategoryUse]:
    sizes = Counter(tool.category or "" for tool in view)
    sent, calls, failed = Counter[str](), Counter[str](), Counter[str]()
    for name, use in uses["tools"].items():
        tool = view.get(name)
        category = "" if tool is None else tool.category or ""
        sent[category] += use.sent
        calls[category] += use.number
        failed[category] += use.failed
    matched = {name: use.number for name, use in uses["categories"].items() if name != OTHERS}
    for name in {*sent, *matched}:
        yield CategoryUse(
            name=name,
            tools=sizes[name],
            matched=matched.get(name, 0),
            sent=sent[name],
            calls=calls[name],
            failed=failed[name],
        )


def _times(uses: Mapping[str, Use], view: View | None) -> Sequence[Times]:
    times = [
        Times(name=name, number=use.number, known=view is not None and view.get(name) is not None)
        for name, use in uses.items()
        if name != OTHERS
    ]
    return sorted(times, key=lambda each: (-each.number, each.name))
