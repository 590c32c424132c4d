"""A tool as it is sent, because what a schema costs in tokens is a property of its definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from toolcaddie.core.schema.encoding import estimate_tokens, shorten
from toolcaddie.core.schema.slim import LONG_DESCRIPTION, slim_schema
from toolcaddie.core.tool import Tool


def wire_definition(tool: Tool, *, slim: bool = False) -> dict[str, Any]:
    """The tool in OpenAI's function format; `slim`: without examples, titles and long descriptions."""
    if tool.definition is None:
        function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        return {"type": "function", "function": _slim_function(function) if slim else function}
    theirs = tool.definition.get("function")
    if not slim or not isinstance(theirs, Mapping):  # a kind we do not know: nothing in it is ours to cut
        return dict(tool.definition)
    return {**tool.definition, "function": _slim_function(theirs)}


def definition_tokens(tools: Iterable[Tool]) -> int:
    """What these tools cost together, each rounded up by itself as the allotment counts them."""
    return sum(estimate_tokens(msgspec.json.encode(wire_definition(tool))) for tool in tools)


def _slim_function(function: Mapping[str, Any]) -> dict[str, Any]:
    small = dict(function)
    if isinstance(small.get("description"), str):
        small["description"] = shorten(small["description"], LONG_DESCRIPTION)
    if "parameters" in small:
        small["parameters"] = slim_schema(small["parameters"])
    return small
