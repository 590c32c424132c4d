"""The modes of the MCP door with a fixed, short menu, behind which the whole catalog stands.

`Compact` has six tools: list, search, schema, and one execution tool for each effect (read, write, destructive). A client that
asks its user before destructive tools, and not before reading ones, can so keep its rules. `Five` has the five meta tools of the
preset `compact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.meta_names import EXECUTE_TOOL, READ_RESULT, RESPOND
from toolcaddie.core.schema import argument_errors
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.doors.mcp.looking import LOOKING, Effect, effect_of, look
from toolcaddie.doors.mcp.menu import OFFER, Scene, called_name, read_on
from toolcaddie.meta.definition import meta_definition
from toolcaddie.meta.registry import OURS
from toolcaddie.util.replacing import replace

_LEVELS: Mapping[Effect, int] = {"read": 0, "write": 1, "destructive": 2}
_TITLES: Mapping[Effect, tuple[str, str]] = {
    "read": ("Run a reading tool", "Run a tool whose effect is 'read': it changes nothing."),
    "write": (
        "Run a writing tool",
        "Run a tool whose effect is 'write': it adds or changes data and destroys nothing.",
    ),
    "destructive": (
        "Run a destructive tool",
        "Run a tool whose effect is 'destructive': it may delete or overwrite data.",
    ),
}


def _executor(effect: Effect) -> Tool:
    title, description = _TITLES[effect]
    tool = meta_definition(
        f"execute_{effect}",
        title,
        f"{description} get_tool_schema shows its arguments.",
        {
            "tool_name": {"type": "string", "description": "The exact name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        required=["tool_name"],
    )
    annotations = ToolAnnotations(
        title=title,
        read_only=effect == "read",
        destructive=effect == "destructive",
        idempotent=effect == "read",
        open_world=True,
    )
    return replace(tool, annotations=annotations)


_EXECUTORS: Mapping[str, Effect] = {f"execute_{effect}": effect for effect in _LEVELS}
_FINDING = "Find tools with search_tools or list_tools, read their arguments with get_tool_schema, and run them with"


class Compact:
    """Six tools, with an execution tool for each effect."""

    instructions = (
        f"{_FINDING} execute_read, execute_write or execute_destructive, whichever is the effect of the tool."
    )

    def __init__(self) -> None:
        self._tools = (*LOOKING.values(), *map(_executor, _LEVELS))

    async def tools(self, scene: Scene) -> Sequence[Tool]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
        if name in LOOKING:
            return await look(name, arguments, scene, effects=True)
        if name not in _EXECUTORS:
            return failed(
                f"There is no tool {name[:64]!r} here; run it through {', '.join(_EXECUTORS)}.",
                "unknown_tool",
            )
        return await self._execute(_EXECUTORS[name], arguments, scene)

    async def _execute(self, allowed: Effect, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
        """Runs the tool that a call contains, unless its effect is stronger than that of the execution tool."""
        called = called_name(arguments)
        if isinstance(called, ToolResult):
            return called
        name, inner = called
        tool = scene.desk.view.get(name)
        if tool is None:
            return await read_on(inner, scene) if name == READ_RESULT else await scene.call(name, inner)
        effect = effect_of(tool)
        if _LEVELS[effect] > _LEVELS[allowed]:
            return failed(f"The effect of {name} is '{effect}'; run it with execute_{effect}.", "denied")
        return await scene.call(name, inner)


class Five:
    """The five meta tools of the preset `compact`, for clients that were built for them."""

    instructions = f"{_FINDING} {EXECUTE_TOOL}."

    def __init__(self) -> None:
        self._execute, self._respond = (OURS[name].definition(OFFER) for name in (EXECUTE_TOOL, RESPOND))
        self._tools = (self._execute, *LOOKING.values(), self._respond)

    async def tools(self, scene: Scene) -> Sequence[Tool]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
        if name in LOOKING:
            return await look(name, arguments, scene)
        if name == RESPOND:
            wrong = argument_errors(self._respond.input_schema, arguments)
            return failed("; ".join(wrong), "invalid_arguments") if wrong else ToolResult(content=arguments["message"])
        if name != EXECUTE_TOOL:
            return failed(
                f"There is no tool {name[:64]!r} here; the catalog's tools run through {EXECUTE_TOOL}.", "unknown_tool"
            )
        called = called_name(arguments)
        if isinstance(called, ToolResult):
            return called
        tool_name, inner = called
        if tool_name == READ_RESULT and scene.desk.view.get(READ_RESULT) is None:
            return await read_on(inner, scene)
        return await scene.call(tool_name, inner)
