"""What the meta tools do. They read the view, never beyond it; what they change is said by their effect.

`execute_tool` is not here: the executor unwraps it, so that the call inside passes every gate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.delivery import DeliveredTool
from toolcaddie.core.meta_names import (
    GET_TOOL_SCHEMA,
    LIST_TOOLS,
    META_TOOLS,
    REQUEST_MORE_TOOLS,
    RESPOND,
    SEARCH_TOOLS,
)
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.selection import Budget, Selection
from toolcaddie.core.tool import Finish, Reveal, Tool, ToolResult, failed
from toolcaddie.meta import first_hits
from toolcaddie.ports import SelectionQuery, Selector
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import Names

_MAX_HITS = 50
_NEAR = 0.8
_QUERY_LOOKED_AT = 500
"""Characters of a search: a model may write a megabyte."""
_CATALOGS = 8
"""Catalogs whose names are kept ready for suggestions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaScene:
    """What a meta call may look at."""

    view: View
    selector: Selector
    budget: Budget
    delivered: Sequence[DeliveredTool]
    """What can be called and takes a place in the array."""
    known: Sequence[str]
    """What can be called besides."""
    fixed_tokens: int
    """Tokens of all that is sent already."""
    fixed_meta: int
    meta_tokens: int
    """Of these tokens, the meta tools': what is sent even when everything else is taken anew."""
    pinned: Sequence[str]
    """Tools that the caller's choice names: they stay when everything else is taken anew."""
    sparing: bool
    """What is revealed is paid for in every call after it: only what is nearly as good as the best."""
    page_size: int
    """Tools of a page of `list_tools`, and hits of a search, at most."""
    expandable: frozenset[str] | None
    """The categories that the model may ask for; None: all of the view."""
    exact_categories: bool
    """`request_more_tools` as in source 000: by categories, the same selection again, new names appended."""


def is_meta(name: str, view: View, offered: Collection[str]) -> bool:
    """Whether a name means a meta tool: it was offered as one, or nobody else has it. A caller's own tool comes first."""
    return name in offered or (name in META_TOOLS and view.get(name) is None)


def looked_for(name: str, arguments: Mapping[str, Any]) -> str:
    """The words by which a call is about to find tools; empty: by none."""
    if name not in (REQUEST_MORE_TOOLS, SEARCH_TOOLS):
        return ""
    named = " ".join(name for name in arguments.get("categories", ()) if isinstance(name, str))
    return str(arguments.get("query", "")).strip() or named


def answer(name: str, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    """Run one meta tool. Arguments are checked against its schema already."""
    return _ANSWERS[name](arguments, scene)


def _request_more(arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    known = [name for name in scene.view.category_names() if scene.expandable is None or name in scene.expandable]
    asked = [name for name in arguments.get("categories", ()) if isinstance(name, str)]
    valid = [name for name in asked if name in known]
    unknown = [name for name in asked if name not in known]
    text = str(arguments.get("query", "")).strip() or None
    if scene.exact_categories:
        found = _reveal_categories(valid, scene)
    elif valid or text:
        found = _reveal_new(text, valid, scene)
    else:
        found = Reveal(names=())
    if unknown and scene.expandable is not None:
        return _partly_refused(found, unknown, known)
    return _revealed(found, unknown, known)


def _reveal_categories(categories: Sequence[str], scene: MetaScene) -> Reveal:
    """Source 000: the same selection on the whole map; what is not active yet is appended, under the cap."""
    if not categories:
        return Reveal(names=())
    selection = scene.selector.select(scene.view, SelectionQuery(categories=categories), scene.budget)
    active = {tool.name for tool in scene.delivered}
    new = [chosen for chosen in selection.tools if chosen.tool.name not in active]
    if scene.budget.provider_cap is not None:
        new = new[: max(0, scene.budget.provider_cap - scene.fixed_meta - len(active))]
    return _reveal(new)


def _reveal_new(text: str | None, categories: Sequence[str], scene: MetaScene) -> Reveal:
    """Ours: the best of what was not delivered; if nothing more fits, the array is selected anew."""
    query = SelectionQuery(
        text=text or " ".join(categories),
        categories=categories or None,
        exclude=frozenset(tool.name for tool in scene.delivered) | frozenset(scene.known),
        fixed_count=scene.fixed_meta + len(scene.delivered),
        fixed_tokens=scene.fixed_tokens,
    )
    view = _askable(scene)
    selection = scene.selector.select(view, query, scene.budget)
    new = _new_tools(selection, query.exclude)
    if new and scene.sparing:
        least = _NEAR * max(chosen.score for chosen in new)
        new = [chosen for chosen in new if chosen.score >= least]
    if new or not any(drop.stage in ("provider_cap", "max_tokens") for drop in selection.dropped):
        return _reveal(new)
    fresh = SelectionQuery(
        text=query.text,
        categories=query.categories,
        pinned=scene.pinned,
        fixed_count=scene.fixed_meta,
        fixed_tokens=scene.meta_tokens,
        expandable=True,
    )
    return _reveal(_new_tools(scene.selector.select(view, fresh, scene.budget), frozenset()), replace=True)


def _askable(scene: MetaScene) -> View:
    """The tools that a request for more may bring, and what is there anyway."""
    if scene.expandable is None:
        return scene.view
    catalog, there = scene.view.catalog, {*(tool.name for tool in scene.delivered), *scene.known, *scene.pinned}
    return scene.view.narrowed(
        np.array(
            [
                tool.category in scene.expandable or tool.name in there or catalog.is_core(tool)
                for tool in catalog.tools
            ],
            dtype=np.bool_,
        )
    )


def _new_tools(selection: Selection, exclude: frozenset[str]) -> list[Any]:
    """Defaults are no answer to a request for something in particular."""
    if selection.no_match:
        return []
    return [chosen for chosen in selection.tools if chosen.tool.name not in exclude]


def _reveal(chosen: Sequence[Any], *, replace: bool = False) -> Reveal:
    return Reveal(
        names=tuple(item.tool.name for item in chosen),
        slim=tuple(item.tool.name for item in chosen if item.slim),
        replace=replace and bool(chosen),
    )


def _revealed(reveal: Reveal, unknown: Sequence[str], known: Sequence[str]) -> ToolResult:
    if reveal.names:
        text = f"Loaded {len(reveal.names)} tools: {', '.join(reveal.names)}. You can call them now."
    else:
        text = "No new tools added: all that fits is loaded already, or nothing fits."
    if unknown:
        shown = ", ".join(repr(name[:64]) for name in unknown[:10])
        text += f" Unknown categories: {shown}. Known: {', '.join(sorted(known)[:_MAX_HITS]) or 'none'}."
    return ToolResult(content=text, effect=reveal if reveal.names else None)


def _partly_refused(reveal: Reveal, refused: Sequence[str], askable: Sequence[str]) -> ToolResult:
    """A request for categories that the model may not ask for: the list says which it may."""
    result = _revealed(reveal, (), askable)
    shown = ", ".join(repr(name[:64]) for name in refused[:10])
    text = f"You cannot ask for {shown} here. You can ask for: {', '.join(sorted(askable)[:_MAX_HITS]) or 'nothing'}."
    return replace(result, content=f"{result.content} {text}") if reveal.names else failed(text, "denied")


def _list(arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    category = arguments.get("category")
    offset, limit = int(arguments.get("offset", 0)), int(arguments.get("limit", scene.page_size))
    tools = [tool for tool in scene.view if category is None or tool.category == category]
    page = tools[offset : offset + limit]
    return _json(
        {
            "total": len(tools),
            "offset": offset,
            "limit": limit,
            "has_more": offset + len(page) < len(tools),
            "tools": [_summary(tool) for tool in page],
        }
    )


def _search(arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    limit = int(arguments.get("limit", first_hits(scene.page_size)))
    query = arguments["query"]
    ranked = [hit.tool for hit in scene.selector.search(scene.view, query, limit)]
    names = {tool.name for tool in ranked}
    words = query[:_QUERY_LOOKED_AT].lower().split()
    plain = (tool for tool in scene.view if words and tool.name not in names and _contains_all(tool, words))
    hits = [*ranked, *islice(plain, max(0, limit - len(ranked)))]
    return _json({"total": len(hits), "tools": [_summary(tool) for tool in hits]})


def _contains_all(tool: Tool, words: Sequence[str]) -> bool:
    """Plain search as in source 004: every word somewhere in name, description or category, in any case."""
    text = f"{tool.name} {tool.description} {tool.category or ''}".lower()
    return all(word in text for word in words)


def _schema(arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    name = arguments["tool_name"]
    tool = scene.view.get(name)
    if tool is None:
        return unknown_tool(name, scene.view)
    return _json(wire_definition(tool)["function"] if "function" in wire_definition(tool) else wire_definition(tool))


def _respond(arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
    return ToolResult(content="Delivered.", effect=Finish(text=arguments["message"]))


_ANSWERS = {
    REQUEST_MORE_TOOLS: _request_more,
    LIST_TOOLS: _list,
    SEARCH_TOOLS: _search,
    GET_TOOL_SCHEMA: _schema,
    RESPOND: _respond,
}


def unknown_tool(name: str, view: View) -> ToolResult:
    """The result for a name that is not visible: close visible names are suggested, hidden ones never confirmed."""
    close = _names_of(view.catalog).close(name, view.mask)
    hint = f"Did you mean {', '.join(close)}?" if close else "Look for one with search_tools or request_more_tools."
    return failed(f"There is no tool {name[:64]!r}. {hint}", "unknown_tool")


@lru_cache(maxsize=_CATALOGS)
def _names_of(catalog: Catalog) -> Names:
    return Names([tool.name for tool in catalog.tools])


def _summary(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "category": tool.category}


def _json(value: Any) -> ToolResult:
    return ToolResult(content=msgspec.json.encode(value).decode(), structured=value)
