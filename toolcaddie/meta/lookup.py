"""Lists, searches and describes the tools that a caller may see, which are called its view. The meta tools use it, and
`ToolDesk`, which offers the same to programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.ports.meta import Prepare
from toolcaddie.ports.selection import Selector
from toolcaddie.util.suggest import Names

_FIRST_HITS = 10
"""Default of the largest number of hits of a search."""
_MAX_QUERY_LENGTH = 500
"""Number of characters of a query that are compared word by word, because a model may write a megabyte."""
_CATALOGS = 8
"""Number of catalogs whose names are cached for suggestions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPage:
    """One page of a listing, in catalog order."""

    tools: Sequence[Tool]
    total: int
    offset: int
    limit: int

    @property
    def has_more(self) -> bool:
        return self.offset + len(self.tools) < self.total


def tool_page(view: View, *, category: str | None, offset: int, limit: int) -> ToolPage:
    """Returns the visible tools from `offset` on, of one category or of all."""
    tools = [tool for tool in view if category is None or tool.category == category]
    return ToolPage(tools=tools[offset : offset + limit], total=len(tools), offset=offset, limit=limit)


async def search_hits(view: View, selector: Selector, prepare: Prepare, query: str, limit: int) -> Sequence[Tool]:
    """Returns the tools that match a query, at most `limit`: first the best matches of the selector, then other tools whose name,
    description and category contain every word of the query. `prepare` fetches the data that the selector needs."""
    await prepared_for(view, prepare, query)
    ranked = [hit.tool for hit in selector.search(view, query, limit)]
    names = {tool.name for tool in ranked}
    words = query[:_MAX_QUERY_LENGTH].lower().split()
    plain = (tool for tool in view if words and tool.name not in names and _contains_all(tool, words))
    return [*ranked, *islice(plain, max(0, limit - len(ranked)))]


async def prepared_for(view: View, prepare: Prepare, query: str) -> None:
    """Fetches the data, such as vectors, that a search by these words needs. Without words, it does nothing."""
    if text := query.strip():
        await prepare(view, SelectionQuery(text=text))


def function_definition(tool: Tool) -> Any:
    """Returns the name, description and parameters of a tool in OpenAI's format."""
    definition = wire_definition(tool)
    return definition.get("function", definition)


def first_hits(page_size: int) -> int:
    """Returns the largest number of hits of a search whose call has no limit."""
    return min(_FIRST_HITS, page_size)


def tool_summary(tool: Tool) -> dict[str, Any]:
    """Returns a tool as an entry of a list."""
    return {"name": tool.name, "description": tool.description, "category": tool.category}


def unknown_tool(name: str, view: View) -> ToolResult:
    """Returns the result of a call with a name that no visible tool has. It suggests only visible names, and does not reveal
    whether a hidden tool has the name."""
    close = _names_of(view.catalog).close(name, view.mask)
    hint = f"Did you mean {', '.join(close)}?" if close else "Look for one with search_tools or request_more_tools."
    return failed(f"There is no tool {name[:64]!r}. {hint}", "unknown_tool")


def _contains_all(tool: Tool, words: Sequence[str]) -> bool:
    """Returns True if each word, in lower case, is in the name, description or category of the tool in any case."""
    text = f"{tool.name} {tool.description} {tool.category or ''}".lower()
    return all(word in text for word in words)


@lru_cache(maxsize=_CATALOGS)
def _names_of(catalog: Catalog) -> Names:
    return Names([tool.name for tool in catalog.tools])
