"""Servers, sources and contexts for the tests of the MCP source."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.sources.mcp.upstream import HERE, make_server, serving
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp import McpServer, McpSource

GENERATIONS = ("2025-11-25", "2026-07-28")
WIRES = ("stdio", "http")


def context(**more: Any) -> RunContext:
    more = {"principal": Principal(), **more}
    return RunContext(run_id="r1", view=View(catalog=Catalog.of(())), model="m", **more)


def stdio_server(name: str = "up", **settings: Any) -> McpServer:
    return McpServer(name=name, command=sys.executable, args=(str(HERE),), **settings)


@asynccontextmanager
async def opened(
    wire: str = "stdio", protocol: Any = "auto", parts: Parts | None = None, **settings: Any
) -> AsyncIterator[McpSource]:
    """Yields an open source over a real server."""
    if wire == "stdio":
        source = McpSource(stdio_server(protocol=protocol, **settings), parts)
        await source.open()
        try:
            yield source
        finally:
            await source.close()
        return
    async with serving(make_server()) as url:
        source = McpSource(McpServer(name="up", url=url, protocol=protocol, **settings), parts)
        await source.open()
        try:
            yield source
        finally:
            await source.close()


def tool_of(source: McpSource, name: str) -> Tool:
    return next(tool for tool in source.tools() if tool.name.endswith(f"__{name}"))


async def called(source: McpSource, name: str, /, run: RunContext | None = None, **arguments: Any) -> ToolResult:
    return await source.call_tool(tool_of(source, name), arguments, run or context())
