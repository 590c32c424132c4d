"""The MCP door of `toolcaddie serve`: an ASGI application that checks host, origin and key, and passes requests on.

The server behind it is loaded with the first request, because the package `mcp` takes most of a second to load. The server's
sessions live in a task of the door, since they outlast the requests that open them.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Self

import msgspec

from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.access import Access, Sender, repeated_header
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.mcp.oauth import Tokens
from toolcaddie.doors.mcp.offers import Offers
from toolcaddie.doors.mcp.seat import SEAT, Seat
from toolcaddie.ports import Store
from toolcaddie.runtime import Runtime
from toolcaddie.util.replacing import replace

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TASK_HEADER = b"x-toolcaddie-task"
"""Header in which a client declares its task, for the mode `selected`."""
_CHANNEL = "mcp"
_INVALID_REQUEST = -32600
_KEY_BEGINNING = "tc_"
"""The beginning of our own keys, which no authorization server is asked about."""
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
    "mcp-session-id, x-toolcaddie-task",
    "access-control-max-age": "600",
}
"""The answer to a browser that asks which requests a page of `mcp.origins` may send."""
_METHODS = ("GET", "POST", "DELETE")


class MCPDoor:
    """The door. Use it as a context manager around the server; on exit all its sessions end."""

    def __init__(
        self,
        runtime: Runtime,
        documents: Store,
        access: Access,
        settings: MCPSettings,
        offers: Offers,
        *,
        bounds: Bounds,
        state_key: str | None = None,
        tokens: Tokens | None = None,
        limiter: Limiter | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self._runtime, self._documents, self._offers = runtime, documents, offers
        self._access = access
        self._tokens = tokens
        self._limiter = limiter
        self._traffic = traffic
        self._settings = settings
        self._bounds = bounds
        self._state_key = state_key
        self._opening = asyncio.Lock()
        self._app: App | None = None
        self._stop = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._streams: set[asyncio.Task[Any]] = set()
        self._end_listening: Callable[[], None] = _nothing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end_streams()
        self._stop.set()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})

    @property
    def paths(self) -> Sequence[str]:
        """The paths at which this application is mounted."""
        return (self._settings.path, *(() if self._tokens is None else self._tokens.paths))

    def end_streams(self) -> None:
        """Ends the streams on which clients wait for news, which would otherwise delay a shutdown. Calls go on."""
        for task in self._streams:
            task.cancel()
        self._end_listening()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The HTTP server leaves blanks at the end of a value, which are no part of it.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        headers = dict(scope["headers"])
        if self._tokens is not None and scope["path"] in self._tokens.paths:
            await _send_json(200, self._tokens.metadata, {}, send)
            return
        if page := self._page(headers):
            send = _for_page(page, send)
            if scope["method"] == "OPTIONS":
                await _send_json(204, b"", _PREFLIGHT, send)
                return
        sender = await self._checked(scope, headers)
        if isinstance(sender, Problem):
            await _refuse(sender, send)
            return
        scope[SEAT] = Seat(
            principal=replace(sender.principal, channel=_CHANNEL),
            task=headers.get(TASK_HEADER, b"").decode("latin-1")[:2_000],
            session=headers.get(b"mcp-session-id", b"").decode("latin-1"),
            key=sender.key,
        )
        app = await self._opened()
        if scope["method"] == "GET":
            await self._streamed(app, scope, receive, send)
        elif scope["method"] == "POST" and self._traffic is not None:
            refusal = await self._traffic.serve(sender.principal.tenant, headers, partial(app, scope, receive, send))
            if refusal is not None:
                await _refuse(refusal, send)
        else:
            await app(scope, receive, send)

    async def _checked(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Sender | Problem:
        """Returns the sender of a request, or the refusal."""
        if refusal := repeated_header(scope["headers"], headers):
            return refusal
        if scope["method"] not in _METHODS:
            return problem(405, f"{scope['method']} is not allowed here", kind="invalid_request_error")
        client = scope["client"][0] if scope.get("client") else None
        token = _token(headers)
        # A gateway that never had keys does not look at a key, so there only tokens count.
        by_key = token.startswith(_KEY_BEGINNING) and await self._access.has_keys()
        if self._tokens is not None and not by_key:
            principal = self._origin_refusal(headers, keyed=True) or await self._tokens.check(token)
            return principal if isinstance(principal, Problem) else Sender(principal=principal)
        checked = await self._access.sender(headers, client=client, has_body=scope["method"] == "POST")
        if isinstance(checked, Problem):
            return checked
        return self._origin_refusal(headers, keyed=await self._access.has_keys()) or checked

    def _origin_refusal(self, headers: Mapping[bytes, bytes], *, keyed: bool) -> Problem | None:
        """Returns the refusal of a web page that the settings do not name. Without keys, `Access` has checked the origin."""
        origin = headers.get(b"origin")
        if origin is None or not keyed or origin.decode("latin-1") in self._settings.origins:
            return None
        message = f"pages of {origin.decode('latin-1')[:100]!r} may not use this server; add the origin to mcp.origins"
        return problem(403, message, kind="invalid_request_error", code="forbidden")

    def _page(self, headers: Mapping[bytes, bytes]) -> str:
        """Returns the origin of a web page that the settings name; empty: the request is from no such page."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        return origin if origin in self._settings.origins else ""

    async def _streamed(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a stream of news until the client leaves, or the server ends its streams."""
        task = asyncio.create_task(_run(app, scope, receive, send))
        self._streams.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._streams.discard(task)
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()):
            raise error

    async def _opened(self) -> App:
        """Returns the application of the server, loaded and started."""
        if self._app is None:
            async with self._opening:
                if self._app is None:
                    self._app = await self._started()
        return self._app

    async def _started(self) -> App:
        http = await asyncio.to_thread(importlib.import_module, "toolcaddie.doors.mcp.http")
        server = http.ToolServer(
            self._runtime,
            self._documents,
            self._settings,
            self._offers,
            state_key=self._state_key,
            limiter=self._limiter,
        )
        self._end_listening = server.end_listening
        opened = http.http_app(server, sessions=self._settings.sessions is not False, bounds=self._bounds)
        ready: asyncio.Future[App] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._kept(opened, ready))
        return await ready

    async def _kept(self, opened: AbstractAsyncContextManager[App], ready: asyncio.Future[App]) -> None:
        """Holds the server open until the door closes. It is entered and left in this one task, as anyio requires."""
        try:
            async with opened as app:
                ready.set_result(app)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


def _nothing() -> None:
    """Ends no streams, because the server is not loaded yet."""


async def _run(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def _for_page(origin: str, send: Send) -> Send:
    """Returns a function that sends an answer which a browser shows to a page."""
    allowed = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]

    async def to_page(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *allowed]}
        await send(message)

    return to_page


def _token(headers: Mapping[bytes, bytes]) -> str:
    """Returns the bearer token of a request; empty: it has none."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _refuse(refusal: Problem, send: Send) -> None:
    """Sends a refusal as an error of JSON-RPC. If the client may try again, its code is the status, as for limits of keys."""
    error: dict[str, Any] = {"code": _INVALID_REQUEST, "message": refusal.message}
    if seconds := refusal.headers.get("retry-after"):
        error |= {"code": refusal.status, "data": {"retryAfter": int(seconds)}}
    error = {"jsonrpc": "2.0", "id": None, "error": error}
    await _send_json(refusal.status, msgspec.json.encode(error), refusal.headers, send)


async def _send_json(status: int, body: bytes, headers: Mapping[str, str], send: Send) -> None:
    own = {"content-type": "application/json", "content-length": str(len(body))}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in {**own, **headers}.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})
