"""Lists, searches and describes tools for MCP clients: the three reading tools of the modes with a short menu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from toolcaddie.core.errors import RequestError
from toolcaddie.core.meta_names import GET_TOOL_SCHEMA, LIST_TOOLS, SEARCH_TOOLS
from toolcaddie.core.schema import argument_errors
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.doors.mcp.menu import OFFER, Scene, answer
from toolcaddie.meta.registry import OURS

Effect = Literal["read", "write", "destructive"]

LOOKING: Mapping[str, Tool] = {
    name: OURS[name].definition(OFFER) for name in (LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA)
}


def effect_of(tool: Tool) -> Effect:
    """Returns the effect of a tool, by which clients decide whether they ask their user."""
    if tool.annotations.read_only:
        return "read"
    return "destructive" if tool.may_destroy else "write"


async def look(name: str, arguments: Mapping[str, Any], scene: Scene, *, effects: bool = False) -> ToolResult:
    """Answers a call of one of the three tools. `effects`: each tool is shown with its effect."""
    if wrong := argument_errors(LOOKING[name].input_schema, arguments):
        return failed("; ".join(wrong), "invalid_arguments")
    match name:
        case "list_tools":
            return _page(arguments, scene, effects=effects)
        case "search_tools":
            hits = await scene.desk.search(arguments["query"], limit=arguments.get("limit"))
            await scene.searched(arguments["query"])
            return answer({"total": len(hits), "tools": _entries(hits, effects=effects)})
        case _:
            return _schema(arguments["tool_name"], scene, effects=effects)


def _page(arguments: Mapping[str, Any], scene: Scene, *, effects: bool) -> ToolResult:
    page = scene.desk.list(
        category=arguments.get("category"), offset=int(arguments.get("offset", 0)), limit=arguments.get("limit")
    )
    return answer(
        {
            "total": page.total,
            "offset": page.offset,
            "limit": page.limit,
            "has_more": page.has_more,
            "tools": _entries(page.tools, effects=effects),
        }
    )


def _schema(name: str, scene: Scene, *, effects: bool) -> ToolResult:
    try:
        tool = scene.desk.tool(name)
    except RequestError as error:
        return failed(str(error), "unknown_tool")
    extra = {"effect": effect_of(tool)} if effects else {}
    return answer({**scene.desk.schema(name), **extra})


def _entries(tools: Sequence[Tool], *, effects: bool) -> list[dict[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description, "category": tool.category}
        | ({"effect": effect_of(tool)} if effects else {})
        for tool in tools
    ]
