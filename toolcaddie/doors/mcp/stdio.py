"""The MCP server over stdin and stdout, for clients that start it as a process (`toolcaddie mcp serve`)."""

from __future__ import annotations

import logging
import secrets

from mcp.server.stdio import stdio_server

from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.control import Principal
from toolcaddie.doors.mcp.offers import Offers
from toolcaddie.doors.mcp.seat import Seat
from toolcaddie.doors.mcp.server import ToolServer
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime


async def serve_stdio(
    runtime: Runtime,
    documents: Store,
    settings: MCPSettings,
    offers: Offers,
    *,
    principal: Principal,
    state_key: str | None = None,
) -> None:
    """Serves the one client of this process until it closes stdin. `principal`: the caller in whose name it calls tools."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    seat = Seat(principal=principal, session=f"stdio-{secrets.token_hex(8)}")
    server = ToolServer(runtime, documents, settings, offers, seat=seat, state_key=state_key)
    async with stdio_server() as (received, sent), server.watching():
        await server.server.run(received, sent, server.server.create_initialization_options())
