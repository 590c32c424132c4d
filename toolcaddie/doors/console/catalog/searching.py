"""A search of the catalog as the model sees it: what the tool `search_tools` would find, and which tools a request with these
words would be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.tool import Tool
from toolcaddie.desk import ToolDesk
from toolcaddie.meta.lookup import prepared_for
from toolcaddie.runtime import Runtime

MOST_HITS = 25
"""The largest number of hits that a page shows."""
_MOST_OTHERS = 50
"""The largest number of other sent tools that a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A tool that fits the words, or that the request is sent anyway."""

    name: str
    description: str
    category: str | None
    source: str
    score: float
    reasons: Sequence[str]
    sent: bool
    """True: the request is sent this tool."""
    stage: str = ""
    """The stage of the selection that dropped the tool; empty: it is sent, or the selection names no stage."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The tools for some words."""

    hits: Sequence[Hit]
    """Those that fit the words, the best first."""
    others: Sequence[Hit]
    """Others that the request is sent too, because they are core tools or the whole catalog fits."""
    sent: int
    """Number of tools that the request is sent."""
    visible: int
    """Number of tools that the caller may see."""
    tokens: int
    tokens_all: int
    no_match: bool
    doubt: float | None
    categories: Sequence[str]


async def finding_of(runtime: Runtime, desk: ToolDesk, text: str) -> Finding:
    """Returns the tools for a text. What takes long is done in a thread, because a catalog may have thousands of tools."""
    await prepared_for(desk.view, desk.prepare, text)
    request = RunRequest(
        messages=(Message(role="user", content=text),),
        principal=desk.request.principal,
        preset=desk.request.preset,
    )
    return await asyncio.to_thread(_search, runtime, desk, text, request)


def _search(runtime: Runtime, desk: ToolDesk, text: str, request: RunRequest) -> Finding:
    ranked = desk.selector.search(desk.view, text, MOST_HITS)
    selection = runtime.select(request)
    sent = {each.tool.name: each for each in selection.tools}
    drops = {each.name: (each.stage, each.detail) for each in selection.dropped}
    names = {hit.tool.name for hit in ranked}
    hits = [_hit(hit.tool, hit.score, hit.reasons, sent, drops) for hit in ranked]
    return Finding(
        hits=hits,
        others=[
            _hit(each.tool, each.score, each.reasons, sent, drops)
            for each in _unlisted(selection, names)[:_MOST_OTHERS]
        ],
        sent=len(selection.tools),
        visible=selection.catalog_size,
        tokens=selection.tokens_selected,
        tokens_all=selection.tokens_all,
        no_match=selection.no_match,
        doubt=selection.doubt,
        categories=selection.categories,
    )


def _unlisted(selection: Selection, names: set[str]) -> Sequence[SelectedTool]:
    return [each for each in selection.tools if each.tool.name not in names]


def _hit(
    tool: Tool,
    score: float,
    reasons: Sequence[str],
    sent: Mapping[str, Any],
    drops: Mapping[str, tuple[str, str]],
) -> Hit:
    is_sent = tool.name in sent
    stage, detail = ("", "") if is_sent else drops.get(tool.name, ("", ""))
    return Hit(
        name=tool.name,
        description=tool.description,
        category=tool.category,
        source=tool.source,
        score=round(score, 4),
        reasons=tuple(reasons),
        sent=is_sent,
        stage=stage,
        detail=detail,
    )
