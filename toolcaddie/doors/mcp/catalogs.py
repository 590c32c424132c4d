"""The modes of the MCP door that show tools of the catalog themselves: `All`, and `Selected` for those that fit the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcaddie.core.meta_names import READ_RESULT, SEARCH_TOOLS
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.doors.mcp.looking import LOOKING, look
from toolcaddie.doors.mcp.menu import READER, Scene, read_on

Select = Callable[[str, Scene], Sequence[Tool]]
"""Returns the tools that fit a task, the best first, with the core tools of the catalog."""


class All:
    """Every tool that the client may see."""

    instructions = ""

    async def tools(self, scene: Scene) -> Sequence[Tool]:
        return (*scene.desk.view, *_reader(scene))

    async def call(self, name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
        return await _call(name, arguments, scene)


class Selected:
    """`search_tools`, and the tools that fit the client's last search or the task that it declared."""

    instructions = "search_tools finds more tools; those that fit your last search are then among your tools."

    def __init__(self, select: Select) -> None:
        self._select = select

    async def tools(self, scene: Scene) -> Sequence[Tool]:
        names = scene.desk.view.catalog
        search = () if names.get(SEARCH_TOOLS) else (LOOKING[SEARCH_TOOLS],)
        return (*search, *_reader(scene), *self._select(scene.task, scene))

    async def call(self, name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
        """Calls any tool that the client may see: one of an earlier selection stays callable."""
        if name == SEARCH_TOOLS and scene.desk.view.catalog.get(SEARCH_TOOLS) is None:
            return await look(name, arguments, scene, effects=True)
        return await _call(name, arguments, scene)


async def _call(name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
    if name == READ_RESULT and scene.desk.view.get(READ_RESULT) is None:
        return await read_on(arguments, scene)
    return await scene.call(name, arguments)


def _reader(scene: Scene) -> Sequence[Tool]:
    """Returns `read_result`, unless truncated results are not stored or the catalog has a tool of that name."""
    return () if scene.read_on is None or scene.desk.view.catalog.get(READ_RESULT) else (READER,)
