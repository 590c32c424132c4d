"""`get_tool_schema`: shows the description and the arguments of one tool that the caller may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.meta_names import GET_TOOL_SCHEMA
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.meta.definition import meta_definition
from toolcaddie.meta.lookup import function_definition, unknown_tool
from toolcaddie.ports.meta import MetaOffer, MetaScene


class GetToolSchema:
    name = GET_TOOL_SCHEMA

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `get_tool_schema` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
            GET_TOOL_SCHEMA,
            "Get a tool's schema",
            "Show a tool's description and the schema of its arguments.",
            {"tool_name": {"type": "string", "description": "The exact name of the tool."}},
            required=["tool_name"],
        )

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the tool's name, description and parameters. `scene.view`: the tools that the caller may see."""
        tool = scene.view.get(arguments["tool_name"])
        if tool is None:
            return unknown_tool(arguments["tool_name"], scene.view)
        value = function_definition(tool)
        return ToolResult(content=msgspec.json.encode(value).decode(), structured=value)
