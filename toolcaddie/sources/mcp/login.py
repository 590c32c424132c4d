"""A person's login at an MCP server. Used by `toolcaddie mcp login` only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web
from mcp.shared.auth import AuthorizationCodeResult
from msgspec.structs import replace

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp.definitions import Definition
from toolcaddie.sources.mcp.link import Hooks, Link
from toolcaddie.sources.mcp.oauth import auth_for
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.sources.mcp.tokens import LoginStore

_SECONDS = 300.0
"""Seconds that a person has for the login."""


async def login(server: McpServer, parts: Parts, principal: Principal, show: Callable[[str], None]) -> None:
    """Logs a principal in and stores the tokens. `show` gets the address that the person has to open. Raises `ConfigError` for a
    server without OAuth, and `OutboundError` if the login fails."""
    if server.oauth is None or server.oauth.grant != "authorization_code" or server.url is None:
        raise ConfigError(
            f"nobody logs in at the MCP server {server.name!r}; give its table oauth = {{}} if it wants that"
        )
    await LoginStore(parts.store, server.name, server.url, principal).forget()
    answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    runner = await _listening(answer, server.oauth.redirect_port)

    async def redirect(url: str) -> None:
        show(url)

    async def callback() -> AuthorizationCodeResult:
        return await answer

    patient = replace(server, connect_seconds=_SECONDS)
    link = Link(
        patient,
        parts,
        Hooks(listed=_ignored, lost=lambda reason: None),
        make_auth=partial(auth_for, patient, parts, principal, redirect=redirect, callback=callback),
    )
    try:
        await link.start()
    finally:
        await link.close()
        await runner.cleanup()


async def _listening(answer: asyncio.Future[AuthorizationCodeResult], port: int) -> web.AppRunner:
    """Listens on this machine for the browser that comes back from the login."""

    async def take(request: web.Request) -> web.Response:
        query = request.query
        if "error" in query and not answer.done():
            answer.set_exception(OutboundError(f"the login was refused: {query['error'][:200]}"))
        elif "code" in query and not answer.done():
            answer.set_result(
                AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
            )
        return web.Response(text="You can close this page and go back to the terminal.")

    app = web.Application()
    app.router.add_get("/callback", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(
            f"port {port} of this machine, to which the browser returns, is in use; set another oauth.redirect_port"
        ) from error
    return runner


async def _ignored(definitions: list[Definition]) -> None:
    """Drops the lists of the server: only its tokens are wanted."""
