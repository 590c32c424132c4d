"""The meta tools' definitions: what a model reads of them. What they do is the engine's.

Each text depends on nothing but its arguments, so a definition is byte-stable for a catalog and the prompt cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from toolcaddie.core.meta_names import (
    EXECUTE_TOOL,
    GET_TOOL_SCHEMA,
    LIST_TOOLS,
    META_SOURCE,
    PAGE_SIZE,
    READ_LIMIT,
    READ_RESULT,
    REQUEST_MORE_TOOLS,
    RESPOND,
    SEARCH_TOOLS,
)
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Tool, ToolAnnotations

_FIRST_HITS = 10
_MIN_LISTED, _MAX_LISTED = 2, 40


def request_more_tools_schema(categories: Iterable[str]) -> dict[str, Any]:
    """Source 000's builder: the function schema of `request_more_tools` for these categories, listed sorted."""
    return wire_definition(request_more_tools_by_category(categories))


def request_more_tools_by_category(categories: Iterable[str]) -> Tool:
    """Source 000's meta tool: `categories` required, `reason` optional, the choices listed in the description."""
    listed = ", ".join(sorted(set(categories)))
    return _meta(
        REQUEST_MORE_TOOLS,
        "Request more tools",
        "Load the tools of further categories when the ones you have do not fit the task. "
        f"Available categories: {listed}.",
        {
            "categories": _strings("Categories to load, from the list above."),
            "reason": {"type": "string", "description": "Why they are needed."},
        },
        required=["categories"],
    )


def request_more_tools(categories: Iterable[str]) -> Tool:
    """Our own: by words, by categories, or both; categories are listed only when there are 2 to 40 of them."""
    names = sorted(set(categories))
    listed = f" Categories: {', '.join(names)}." if _MIN_LISTED <= len(names) <= _MAX_LISTED else ""
    return _meta(
        REQUEST_MORE_TOOLS,
        "Request more tools",
        "More tools exist than you were given. Call this when none of yours fits the task: say what you need in `query`, "
        f"or name `categories`. The tools found can be called from the next step on.{listed}",
        {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "categories": _strings("Categories to load tools from."),
            "reason": {"type": "string", "description": "Why they are needed."},
        },
        anyOf=[{"required": ["query"]}, {"required": ["categories"]}],
    )


def execute_tool() -> Tool:
    return _meta(
        EXECUTE_TOOL,
        "Execute a tool",
        "Run any tool by its name, also one found by search and not in your list. "
        "Read its schema first with get_tool_schema if you do not know its arguments.",
        {
            "tool_name": {"type": "string", "description": "The exact name of the tool."},
            "arguments": {"type": "object", "description": "The tool's arguments, as its schema says."},
        },
        required=["tool_name"],
        read_only=False,
    )


def list_tools(page_size: int = PAGE_SIZE) -> Tool:
    return _meta(
        LIST_TOOLS,
        "List tools",
        "List the available tools page by page, in a stable order.",
        {
            "category": {"type": "string", "description": "Only tools of this category."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Tools to skip."},
            "limit": {"type": "integer", "minimum": 1, "maximum": page_size, "default": page_size},
        },
    )


def search_tools(page_size: int = PAGE_SIZE) -> Tool:
    return _meta(
        SEARCH_TOOLS,
        "Search tools",
        f"Find tools by words in their name, description and category. At most {page_size} hits.",
        {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "limit": {"type": "integer", "minimum": 1, "maximum": page_size, "default": first_hits(page_size)},
        },
        required=["query"],
    )


def first_hits(page_size: int) -> int:
    """Hits of a search that says no limit."""
    return min(_FIRST_HITS, page_size)


def get_tool_schema() -> Tool:
    return _meta(
        GET_TOOL_SCHEMA,
        "Get a tool's schema",
        "Show a tool's description and the schema of its arguments.",
        {"tool_name": {"type": "string", "description": "The exact name of the tool."}},
        required=["tool_name"],
    )


def respond() -> Tool:
    return _meta(
        RESPOND,
        "Respond",
        "Give the user your final answer. This ends the task.",
        {"message": {"type": "string", "description": "The answer."}},
        required=["message"],
    )


def read_result() -> Tool:
    return _meta(
        READ_RESULT,
        "Read on in a result",
        "Read the next part of a result that was cut. The note at its end gives the handle and the offset.",
        {
            "handle": {"type": "string", "description": "The handle from the note."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Characters to skip."},
            "limit": {"type": "integer", "minimum": 1, "maximum": READ_LIMIT, "default": READ_LIMIT},
        },
        required=["handle"],
    )


def offered_meta_tools(
    names: Iterable[str],
    categories: Iterable[str],
    *,
    expand_by: Literal["query", "categories"] = "query",
    page_size: int = PAGE_SIZE,
) -> dict[str, Tool]:
    """The meta tools of these names, in their order. `expand_by` says which `request_more_tools` it is, and `categories` what
    it lists."""
    categories = tuple(categories)
    more = request_more_tools if expand_by == "query" else request_more_tools_by_category
    makers: dict[str, Callable[[], Tool]] = {
        REQUEST_MORE_TOOLS: lambda: more(categories),
        EXECUTE_TOOL: execute_tool,
        LIST_TOOLS: lambda: list_tools(page_size),
        SEARCH_TOOLS: lambda: search_tools(page_size),
        GET_TOOL_SCHEMA: get_tool_schema,
        RESPOND: respond,
    }
    return {name: makers[name]() for name in names}


def _meta(
    name: str,
    title: str,
    description: str,
    properties: dict[str, Any],
    *,
    required: list[str] | None = None,
    read_only: bool = True,
    **more: Any,
) -> Tool:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    if required:
        schema["required"] = required
    return Tool(
        name=name,
        description=description,
        input_schema=schema,
        source=META_SOURCE,
        annotations=ToolAnnotations(
            title=title, read_only=read_only, destructive=not read_only, idempotent=read_only, open_world=not read_only
        ),
    )


def _strings(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}
