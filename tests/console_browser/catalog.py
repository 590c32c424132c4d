"""A catalog in which everything but the names of the tools is hostile: one tool for each payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.console_browser.payloads import PAYLOADS
from toolcaddie.core.catalog import Category
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult

ASKS_EACH = 6
"""Each so many tools, one asks a person before it runs."""
_FAILS_EACH = 7
_CATEGORIES = 20


def name_of(place: int) -> str:
    """Returns the name of the tool of a payload."""
    return f"tool_{place:03}"


class Hostile:
    """A source of tools whose texts, results and errors are payloads."""

    name = "hostile"
    revision = 0

    def tools(self) -> Sequence[Tool]:
        return [_tool(place, payload) for place, payload in enumerate(PAYLOADS)]

    def categories(self) -> Sequence[Category]:
        return [
            Category(name=_category(place), description=PAYLOADS[place], keywords=(PAYLOADS[place],))
            for place in range(_CATEGORIES)
        ]

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        place = int(tool.name.rpartition("_")[2])
        if place % _FAILS_EACH == 0:
            raise ValueError(PAYLOADS[place])
        return ToolResult(content=PAYLOADS[place])


source = Hostile()


def _category(place: int) -> str:
    return PAYLOADS[place % _CATEGORIES]


def _tool(place: int, payload: str) -> Tool:
    field = {"type": "string", "title": payload, "description": payload, "default": payload, "examples": [payload]}
    return Tool(
        name=name_of(place),
        description=payload,
        category=_category(place),
        hints=(payload,),
        tags=(payload,),
        source="hostile",
        untrusted=place % 2 == 0,
        annotations=ToolAnnotations(title=payload, destructive=place % ASKS_EACH == 0),
        input_schema={
            "type": "object",
            "title": payload,
            "properties": {payload: field, "choice": {"enum": [payload, "other"], "description": payload}},
        },
    )
