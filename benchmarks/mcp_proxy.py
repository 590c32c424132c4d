"""A bare MCP proxy, made of the package `mcp` alone: each request is passed to another server and its answer back. It is what the
door in front of a server is measured beside.

    python -m benchmarks.mcp_proxy stdio COMMAND ARGS
    python -m benchmarks.mcp_proxy PORT URL
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server


def _proxy(target: Any) -> Server[Client]:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[Client]:
        async with Client(target) as client:
            yield client

    async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return await context.lifespan_context.list_tools()

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await context.lifespan_context.call_tool(params.name, params.arguments)

    return Server("proxy", lifespan=lifespan, on_list_tools=list_tools, on_call_tool=call_tool)


async def _over_stdio(server: Server[Client]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main(how: str, *target: str) -> None:
    if how == "stdio":
        asyncio.run(_over_stdio(_proxy(StdioServerParameters(command=target[0], args=list(target[1:])))))
    else:
        app = _proxy(target[0]).streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(how), log_level="critical")


if __name__ == "__main__":
    main(*sys.argv[1:])
