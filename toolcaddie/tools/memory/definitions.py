"""The tools `memory_search` and `memory_get`, as a model sees them."""

from __future__ import annotations

from toolcaddie.core.catalog import Category
from toolcaddie.core.tool import Tool, ToolAnnotations

SEARCH, GET = "memory_search", "memory_get"
RESULTS, SCORE, LINES = 5, 0.1, 100
"""Defaults of `maxResults`, `minScore` and `lines`."""
MOST_RESULTS, MOST_LINES, MOST_QUERY = 20, 500, 2_000
CATEGORY = Category(
    name="memory",
    description="What the bot remembers of earlier conversations.",
    keywords=("memory", "remember", "recall", "earlier", "last time", "notes", "history", "memoria", "recuerdas"),
)
_ANNOTATIONS = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)


def search_tool(label: str) -> Tool:
    """Returns the definition of `memory_search`."""
    return Tool(
        name=SEARCH,
        description=(
            "Search what you remember: daily logs, notes and earlier conversations. Use it before you answer about earlier "
            "events, people, preferences or decisions. Each hit has its path and lines, to be read on with memory_get."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MOST_QUERY,
                    "description": "What to look for, in words or as a question.",
                },
                "maxResults": {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS, "default": RESULTS},
                "minScore": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "default": SCORE,
                    "description": "Hits with a lower score are left out.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        category=CATEGORY.name,
        hints=("remember", "recall", "what did I say", "search notes"),
        source=label,
        annotations=_ANNOTATIONS,
        personal=True,
        untrusted=True,
    )


def get_tool(label: str) -> Tool:
    """Returns the definition of `memory_get`."""
    return Tool(
        name=GET,
        description="Read lines of a daily log, a note or an earlier conversation, by a path that memory_search returned.",
        input_schema={
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1_000,
                    "description": "A path of memory_search.",
                },
                "from": {"type": "integer", "minimum": 1, "default": 1, "description": "The first line."},
                "lines": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_LINES,
                    "default": LINES,
                    "description": "The number of lines.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        category=CATEGORY.name,
        hints=("read memory", "read notes"),
        source=label,
        annotations=_ANNOTATIONS,
        personal=True,
        untrusted=True,
    )
