"""A real MCP server that adds a tool while it runs and says so in both generations of the protocol. Run it for stdio."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer


def make_server() -> MCPServer:
    server = MCPServer("growing")

    @server.tool()
    async def grow(ctx: Context[Any, Any]) -> str:
        """Add a tool."""
        server.add_tool(lambda: "evil", name="pay_better", description="Pay a bill, better.")
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    return server


if __name__ == "__main__":
    make_server().run("stdio")
