"""Encodes tools as definitions in OpenAI's function format, and estimates the tokens of these definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from toolcaddie.core.schema.encoding import estimate_tokens, shorten
from toolcaddie.core.schema.slim import LONG_DESCRIPTION, slim_schema
from toolcaddie.core.tool import Tool


def wire_definition(tool: Tool, *, slim: bool = False) -> dict[str, Any]:
    """Returns the tool in OpenAI's function format; `slim`: without examples, titles and long descriptions."""
    if tool.definition is None:
        function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        return {"type": "function", "function": _slim_function(function) if slim else function}
    function_of_client = tool.definition.get("function")
    if not slim or not isinstance(function_of_client, Mapping):  # a definition of an unknown kind must not be changed
        return dict(tool.definition)
    return {**tool.definition, "function": _slim_function(function_of_client)}


def definition_tokens(tools: Iterable[Tool]) -> int:
    """Estimates the tokens of the definitions of these tools. Each is rounded up by itself, as selection does."""
    return sum(estimate_tokens(msgspec.json.encode(wire_definition(tool))) for tool in tools)


def _slim_function(function: Mapping[str, Any]) -> dict[str, Any]:
    small = dict(function)
    if isinstance(small.get("description"), str):
        small["description"] = shorten(small["description"], LONG_DESCRIPTION)
    if "parameters" in small:
        small["parameters"] = slim_schema(small["parameters"])
    return small
