"""What the practice model may do next, and how it asks for tools that it was not shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.tool import JsonObject
from toolcaddie.samples.practice.arguments import Filled
from toolcaddie.samples.practice.scene import Scene
from toolcaddie.samples.practice.toolbox import KnownTool
from toolcaddie.samples.practice.words import split_words, stem, stems

_MAX_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Words, which end the turn."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool to call."""

    name: str
    arguments: Mapping[str, Any]


Step = Say | tuple[Call, ...]


def call_of(tool: KnownTool, filled: Filled) -> Call:
    """The call of a tool, through `execute_tool` where it was not offered itself."""
    if tool.offered:
        return Call(name=tool.name, arguments=filled.arguments)
    return Call(name=EXECUTE_TOOL, arguments={"tool_name": tool.name, "arguments": filled.arguments})


def schema_calls(tools: Sequence[KnownTool], scene: Scene) -> tuple[Call, ...]:
    """Calls that show the schemas of tools found by search, each asked for once: what a tool needs tells which is meant."""
    asked = {done.arguments.get("tool_name") for done in scene.calls_of(GET_TOOL_SCHEMA)}
    names = dict.fromkeys(tool.name for tool in tools if tool.schema is None and tool.name not in asked)
    return tuple(Call(name=GET_TOOL_SCHEMA, arguments={"tool_name": name}) for name in names)


def query_words(scene: Scene) -> list[str]:
    """The words of the wish that could be a tool's, as written."""
    content = set(scene.wish.content) - scene.naming_stems
    words = [word for word in split_words(scene.text) if stem(word) in content and not word.isdigit()]
    return list(dict.fromkeys(words)) or split_words(scene.text)


def look_further(scene: Scene, query: str) -> tuple[Call, ...] | None:
    """Ask for tools by words, where that is offered and was not done with these words."""
    for name in (REQUEST_MORE_TOOLS, SEARCH_TOOLS):
        if name not in scene.box.meta or len(scene.calls_of(name)) >= _MAX_TRIES:
            continue
        arguments = more_arguments(scene, query) if name == REQUEST_MORE_TOOLS else {"query": query}
        if arguments and not scene.has_done(name, arguments):
            return (Call(name=name, arguments=arguments),)
    return None


def more_arguments(scene: Scene, query: str) -> JsonObject | None:
    """By words where words are taken, else by the categories the definition lists."""
    tool = scene.box.meta.get(REQUEST_MORE_TOOLS)
    if tool is None or any(slot.name == "query" for slot in tool.slots):
        return {"query": query}
    listed = re.split(r",\s*", tool.description.rpartition(":")[2].strip(" ."))
    wanted = set(stems(query)) | set(scene.wish.background)
    fitting = [name for name in listed if wanted.intersection(stems(name))]
    return {"categories": fitting or listed, "reason": query}
