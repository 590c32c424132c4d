"""`execute_tool`: runs another tool by its name. The inner call is checked like any other call: permissions, policy, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.meta.definition import meta_definition
from toolcaddie.ports.meta import MetaOffer
from toolcaddie.util.replacing import replace


class ExecuteTool:
    name = EXECUTE_TOOL

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `execute_tool` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
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

    def unwrapped(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Returns the inner call, which the run loop executes instead of this call."""
        inner = canonical_json(arguments.get("arguments", {})).decode()
        return replace(call, name=arguments["tool_name"], arguments=inner)
