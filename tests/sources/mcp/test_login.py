"""A login at an MCP server with OAuth: a real server that is its own authorization server, and a browser that needs no person."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.auth.provider import (
    AccessToken,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

from tests.free_port import free_port
from tests.sources.mcp.authority import Authority, visit
from tests.sources.mcp.upstream import serving
from tests.sources.mcp.using import context
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import OutboundError
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp import McpServer, McpSource, OAuth
from toolcaddie.sources.mcp.login import login
from toolcaddie.sources.mcp.tokens import KIND
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def test_a_login_is_stored_and_refreshed_by_the_next_process() -> None:
    authority, store, port = Authority(), MemoryStore(), free_port()
    base = f"http://127.0.0.1:{port}"
    server = MCPServer(
        "guarded",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        ),
    )

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    settings = McpServer(name="guarded", url=f"{base}/mcp", oauth=OAuth(redirect_port=free_port()))
    async with serving(server, port):
        with pytest.raises(OutboundError, match="toolcaddie mcp login guarded"):
            await McpSource(settings, Parts(store=store)).open()

        visits: set[asyncio.Task[None]] = set()

        def show(url: str) -> None:
            visits.add(asyncio.create_task(visit(url)))

        await login(settings, Parts(store=store), Principal(), show)
        assert len(visits) == 1
        [document] = (await store.scan(KIND)).documents
        assert document.key == "guarded\0default\0local"
        source = McpSource(settings, Parts(store=store))
        await source.open()
        assert (await source.call_tool(source.tools()[0], {"a": 1, "b": 2}, context())).text == "3"
        await source.close()
        authority.tokens.clear()
        authority.tokens["gone"] = AccessToken(token="gone", client_id="x", scopes=[])
        # The stored token is out of date for a process whose clock says so; it is refreshed without a person.
        later = McpSource(settings, Parts(store=store))
        changed = document.value
        assert b"access-0" in changed
        expired = changed.replace(b'"expires":', b'"expires":1.0,"was":')
        await store.put(KIND, document.key, expired)
        await later.open()
        assert authority.refreshed == 1
        await later.close()
