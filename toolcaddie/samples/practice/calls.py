"""The two kinds of step that the practice model takes, a text or tool calls, and the calls with which it looks for further tools.

The practice model follows rules instead of a language model. A scene is a request as these rules read it, with the calls so far.
A meta tool, such as `search_tools`, finds or calls other tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.tool import JsonObject
from toolcaddie.samples.practice.english import STOPS, stem, stems, words
from toolcaddie.samples.practice.scene import Scene
from toolcaddie.samples.practice.tools import KnownTool

_MAX_TRIES = 2
"""The largest number of calls of each tool that searches for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A text, which ends the turn."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool to call."""

    name: str
    arguments: Mapping[str, Any]


Step = Say | tuple[Call, ...]


def call_of(tool: KnownTool, arguments: Mapping[str, Any]) -> Call:
    """Returns the call of a tool, through `execute_tool` if the request does not offer the tool itself."""
    if tool.offered:
        return Call(name=tool.name, arguments=arguments)
    return Call(name=EXECUTE_TOOL, arguments={"tool_name": tool.name, "arguments": arguments})


def schema_call(tool: KnownTool, scene: Scene) -> tuple[Call, ...]:
    """Returns the call that shows the schema of a tool found by search; empty if it is known or was requested before."""
    arguments = {"tool_name": tool.name}
    needless = tool.schema is not None or scene.has_called(GET_TOOL_SCHEMA, arguments)
    return () if needless else (Call(name=GET_TOOL_SCHEMA, arguments=arguments),)


def query_of(scene: Scene) -> str:
    """Returns the words of the request that may occur in a tool's definition, as written."""
    names = {
        stem
        for mention in scene.mentions
        if mention.kind in ("name", "email", "ordinal")
        for stem in stems(mention.text)
    }
    spoken = [
        word for word in words(scene.text) if word not in STOPS and not word.isdigit() and stem(word) not in names
    ]
    return " ".join(dict.fromkeys(spoken)) or scene.text


def look_further(scene: Scene, query: str) -> tuple[Call, ...]:
    """Returns a call that searches for tools; empty if no search is offered, or if this query was searched for before."""
    for name in (REQUEST_MORE_TOOLS, SEARCH_TOOLS):
        if name in scene.box.meta and len(scene.calls_of(name)) < _MAX_TRIES:
            arguments = more_arguments(scene, query) if name == REQUEST_MORE_TOOLS else {"query": query}
            if not scene.has_called(name, arguments):
                return (Call(name=name, arguments=arguments),)
    return ()


def more_arguments(scene: Scene, query: str) -> JsonObject:
    """Returns the arguments for `request_more_tools`: a query if the tool takes one, else categories from the tool's
    description."""
    tool = scene.box.meta.get(REQUEST_MORE_TOOLS)
    if tool is None or any(slot.name == "query" for slot in tool.slots):
        return {"query": query}
    listed = re.split(r",\s*", tool.description.rpartition(":")[2].strip(" ."))
    spoken = {*stems(query), *stems(scene.before)}
    return {"categories": [name for name in listed if not spoken.isdisjoint(stems(name))] or listed, "reason": query}
