"""A catalog of an office: a tool that writes files and asks before, one with every kind of field, and some that only read."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import JsonObject, Tool, ToolAnnotations, ToolResult

FOLDER = "OFFICE_FOLDER"
"""The environment variable with the folder in which notes are written."""

DOOR = "door"
"""The named pipe in that folder from which the tool `wait_at_door` reads."""


class Office:
    """A source of tools whose effects a test can see."""

    name = "office"
    revision = 0

    def tools(self) -> Sequence[Tool]:
        return [
            _tool("write_note", "Writes a note into a file, over the one that is there.", _NOTE, destructive=True),
            _tool("wait_at_door", "Waits at the door of the office until somebody opens it.", _WORD),
            _tool("describe_order", "Describes an order of a customer.", _ORDER),
            _tool("look_up", "Looks up a word in the dictionary of the office.", _WORD),
            *(_tool(f"count_{each}", f"Counts the {each} in the store room.", _WORD) for each in _THINGS),
        ]

    def categories(self) -> Sequence[Any]:
        return []

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        if tool.name == "write_note":
            _write(**arguments)
            return ToolResult(content=f"wrote {arguments['name']}")
        if tool.name == "wait_at_door":
            return ToolResult(
                content=await asyncio.to_thread(Path(os.environ[FOLDER], DOOR).read_text, encoding="utf-8")
            )
        return ToolResult(content=json.dumps(arguments, sort_keys=True))


def _write(name: str, text: str) -> None:
    Path(os.environ[FOLDER], f"{name}.txt").write_text(text, encoding="utf-8")


def _tool(name: str, description: str, schema: JsonObject, *, destructive: bool = False) -> Tool:
    return Tool(
        name=name,
        description=description,
        category="office",
        source="office",
        annotations=ToolAnnotations(read_only=not destructive, destructive=destructive),
        input_schema=schema,
    )


_THINGS = ("pens", "chairs", "tables", "lamps", "folders", "stamps", "cups", "boxes")
_NOTE: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]+$", "description": "The name of the file."},
        "text": {"type": "string", "maxLength": 1000, "description": "The note."},
    },
    "required": ["name", "text"],
}
_WORD: JsonObject = {"type": "object", "properties": {"word": {"type": "string"}}}
_ORDER: JsonObject = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "description": "Who has ordered."},
        "count": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "urgent": {"type": "boolean"},
        "size": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
    "required": ["customer"],
}

source = Office()
