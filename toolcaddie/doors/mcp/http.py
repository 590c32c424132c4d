"""The MCP server over streamable HTTP. `door.py` loads this module with the first request and keeps it open."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from toolcaddie.core.bounds import Bounds
from toolcaddie.doors.mcp.door import App
from toolcaddie.doors.mcp.seat import SEAT, Seat
from toolcaddie.doors.mcp.server import ToolServer
from toolcaddie.doors.mcp.streams import RecentEvents

_RETRY_MILLISECONDS = 500
"""Milliseconds after which a client asks again for a stream that was closed before its answer."""


@asynccontextmanager
async def http_app(server: ToolServer, *, sessions: bool, bounds: Bounds) -> AsyncIterator[App]:
    """Yields the application that answers requests whose senders are known. `sessions` False: no state is kept between two
    requests of any client."""
    logging.getLogger("mcp").setLevel(logging.WARNING)  # the package logs a line for each request
    manager = StreamableHTTPSessionManager(
        server.server,
        event_store=RecentEvents() if sessions else None,
        retry_interval=_RETRY_MILLISECONDS if sessions else None,
        stateless=not sessions,
        max_request_body_size=bounds.body,
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["user"] = _user(scope[SEAT])
        await manager.handle_request(scope, receive, send)

    async with manager.run(), server.watching():
        yield app


def _user(seat: Seat) -> AuthenticatedUser:
    """Returns the sender in the form of the package `mcp`, which serves a session only to the sender who opened it."""
    owner = repr(seat.principal)
    return AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[], subject=owner))
