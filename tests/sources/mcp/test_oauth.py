"""Authorization servers that are not the MCP server itself, and logins of single principals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

from tests.free_port import free_port
from tests.sources.mcp.authority import Authority, visit
from tests.sources.mcp.upstream import serving
from tests.sources.mcp.using import context, tool_of
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.parts import Parts, Secrets
from toolcaddie.sources.mcp import McpServer, McpSource, OAuth
from toolcaddie.sources.mcp.login import login
from toolcaddie.sources.mcp.server import ANY_PORT, authority_origin
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio


def _settings(issuer: str, resource: str) -> AuthSettings:
    return AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        resource_server_url=AnyHttpUrl(resource),
        validate_token_resource=False,
        client_registration_options=ClientRegistrationOptions(enabled=True),
    )


@asynccontextmanager
async def guarded(authority: Authority) -> AsyncIterator[tuple[str, str]]:
    """Serves an MCP server and its authorization server on different ports. Yields the address of the first, and the origin of
    the second."""
    port, other = free_port(), free_port()
    url, issuer = f"http://127.0.0.1:{port}/mcp", f"http://127.0.0.1:{other}"

    class Verifier:
        async def verify_token(self, token: str) -> Any:
            return await authority.load_access_token(token)

    server = MCPServer("guarded", token_verifier=Verifier(), auth=_settings(issuer, url))

    @server.tool()
    def whoami() -> str:
        """Name the token."""
        token = get_access_token()
        return token.token if token else "nobody"

    logins = MCPServer("logins", auth_server_provider=authority, auth=_settings(issuer, f"{issuer}/mcp"))
    async with serving(server, port), serving(logins, other):
        yield url, issuer


async def _log_in(server: McpServer, parts: Parts, principal: Principal) -> None:
    visits: set[asyncio.Task[None]] = set()
    await login(server, parts, principal, lambda url: visits.add(asyncio.create_task(visit(url))))
    assert len(visits) == 1


@pytest.mark.parametrize("any_port", [False, True], ids=["its port", "any port"])
async def test_an_authorization_server_at_another_port_of_the_same_host_must_be_named(any_port: bool) -> None:
    authority = Authority()
    async with guarded(authority) as (url, issuer):
        server = McpServer(name="up", url=url, oauth=OAuth(redirect_port=free_port()))
        with pytest.raises(OutboundError, match=f"add '{issuer}' to oauth.hosts"):
            await McpSource(server, Parts(store=MemoryStore())).open()
        assert not authority.clients
        parts = Parts(store=MemoryStore())
        entry = f"{issuer.rpartition(':')[0]}:*" if any_port else issuer
        named = McpServer(name="up", url=url, oauth=OAuth(redirect_port=free_port(), hosts=(entry,)))
        await _log_in(named, parts, Principal())
        source = McpSource(named, parts)
        await source.open()
        assert (await source.call_tool(source.tools()[0], {}, context())).text == "access-0"
        await source.close()


async def test_each_principal_calls_with_its_own_login() -> None:
    authority, parts = Authority(), Parts(store=MemoryStore())
    async with guarded(authority) as (url, issuer):
        oauth = OAuth(redirect_port=free_port(), hosts=(issuer,), per_principal=True)
        server = McpServer(name="up", url=url, oauth=oauth)
        ada, bob = Principal(id="ada"), Principal(id="bob")
        for principal in (Principal(), ada):
            await _log_in(server, parts, principal)
        source = McpSource(server, parts)
        await source.open()
        whoami = tool_of(source, "whoami")

        async def token_of(principal: Principal) -> str:
            return (await source.call_tool(whoami, {}, context(principal=principal))).text

        assert [await token_of(each) for each in (Principal(), ada, Principal())] == [
            "access-0",
            "access-1",
            "access-0",
        ]
        refused = await source.call_tool(whoami, {}, context(principal=bob))
        assert refused.is_error
        assert "toolcaddie mcp login up --principal bob" in refused.text
        await _log_in(server, parts, bob)
        assert await token_of(bob) == "access-2"
        elsewhere = Principal(id="ada", tenant="other")
        assert (await source.call_tool(whoami, {}, context(principal=elsewhere))).is_error
        await source.close()


async def test_the_headers_for_a_server_do_not_go_to_its_authorization_server() -> None:
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(status=404)

    async with _app(answer) as issuer:
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        guard = MCPServer("guarded", token_verifier=_Nobody(), auth=_settings(issuer, url))
        server = McpServer(
            name="up",
            url=url,
            headers_from={"x-secret": "SECRET"},
            oauth=OAuth(hosts=(issuer,), redirect_port=free_port()),
        )
        async with serving(guard, port):
            with pytest.raises(OutboundError):
                await McpSource(server, Parts(store=MemoryStore(), secrets=Secrets({"SECRET": "s3cret"}))).open()
    assert seen
    assert not any("x-secret" in headers for headers in seen)


class _Nobody:
    async def verify_token(self, token: str) -> None:
        return None


@asynccontextmanager
async def _app(handler: Any) -> AsyncIterator[str]:
    app, port = web.Application(), free_port()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("login.internal", ("https", "login.internal", 443)),
        ("login.internal:8443", ("https", "login.internal", 8443)),
        ("http://Login.internal", ("http", "login.internal", 80)),
        ("https://login.internal:443/", ("https", "login.internal", 443)),
        ("http://localhost:*", ("http", "localhost", ANY_PORT)),
        ("login.internal:*/", ("https", "login.internal", ANY_PORT)),
    ],
    ids=["name", "port", "scheme", "default", "any port", "any port of a name"],
)
def test_entries_of_hosts_are_origins(text: str, origin: Sequence[Any]) -> None:
    assert authority_origin(text) == origin


@pytest.mark.parametrize(
    "text", ["ftp://a", "https://a/path", "https://user@a", "https://a?x=1", "", "a:port", "a:8080:*", "*:*", "a:*:*"]
)
def test_an_entry_of_hosts_that_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"oauth\.hosts"):
        McpSource(McpServer(name="up", url="http://a/mcp", oauth=msgspec.convert({"hosts": [text]}, OAuth)))
