"""An MCP server with 200 tools of an office, over stdio. It adds each call to the file that its first argument names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

CALLS = Path(sys.argv[1])
AREAS = (
    "invoice",
    "shipment",
    "customer",
    "ticket",
    "contract",
    "supplier",
    "vehicle",
    "warehouse",
    "campaign",
    "payroll",
)
ACTIONS = ("create", "cancel", "list", "update", "approve", "export", "archive", "print", "merge", "share")
PLACES = ("", "_north")
NAMES = [f"{action}_{area}{place}" for place in PLACES for action in ACTIONS for area in AREAS]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    tools = [types.Tool(name=n, description=f"{n.replace('_', ' ').capitalize()}.", input_schema=SCHEMA) for n in NAMES]
    return types.ListToolsResult(tools=tools)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    with CALLS.open("a") as calls:  # noqa: ASYNC230 - one short line
        calls.write(json.dumps([params.name, params.arguments]) + "\n")
    return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name}: done")])


async def main() -> None:
    server = Server("office", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
