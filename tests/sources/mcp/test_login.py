"""A login at an MCP server with OAuth: a real server that is its own authorization server, and a browser that needs no person."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

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


class Authority:
    """An authorization server in memory. It logs everybody in at once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.refreshed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = f"code-{len(self.codes)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        return self._issued(str(client.client_id))

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: Any) -> OAuthToken:
        self.refreshed += 1
        return self._issued(str(client.client_id))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)

    def _issued(self, client: str) -> OAuthToken:
        number = len(self.tokens)
        self.tokens[f"access-{number}"] = AccessToken(token=f"access-{number}", client_id=client, scopes=[])
        self.refreshes[f"refresh-{number}"] = RefreshToken(token=f"refresh-{number}", client_id=client, scopes=[])
        return OAuthToken(access_token=f"access-{number}", refresh_token=f"refresh-{number}", expires_in=3600)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def test_a_login_is_stored_and_refreshed_by_the_next_process() -> None:
    authority, store, port = Authority(), MemoryStore(), free_port()
    base = f"http://127.0.0.1:{port}"
    server = MCPServer(
        "guarded",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
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
            visits.add(asyncio.create_task(_visit(url)))

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


async def _visit(url: str) -> None:
    assert urlsplit(url).path == "/authorize"
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        assert response.status == 200
