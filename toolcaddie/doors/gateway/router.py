"""The gateway's table of routes, an ASGI application: it finds the handler of a request by path and method.

Before it calls the handler, it refuses repeated headers and authenticates the client. It sends every error that a handler raises
to the client. It uses no web framework: requests to models must be fast, and the few other routes need none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.access import AUTHORIZATION, Access, repeated_header
from toolcaddie.doors.gateway.elsewhere import advice
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.problems import problem, problem_of
from toolcaddie.ports.wires import DoorWire
from toolcaddie.util.log import Logger
from toolcaddie.wires import chat

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request. `principal`: the user, bot, role and tenant in whose name the request runs. `keyed`: True if the
    client sent a key of the gateway, which is not forwarded to the model's API."""

    principal: Principal
    keyed: bool


_ANYONE = Caller(principal=Principal(), keyed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path and method. A GET route answers HEAD as well."""

    method: Literal["GET", "POST"]
    path: str
    handle: Callable[[Exchange, Caller], Awaitable[None]]
    wire: DoorWire = chat.WIRE
    """The wire (API format) in which errors are written."""
    key_headers: Collection[bytes] = (AUTHORIZATION,)
    """Headers that may contain the API key."""
    public: bool = False
    """True if no key is required."""


class Router:
    """An ASGI application over a table of routes."""

    def __init__(self, routes: Iterable[Route], access: Access, *, own_upstream_key: bool, bounds: Bounds) -> None:
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods = self._routes.setdefault(route.path, {})
            for method in (route.method, *(("HEAD",) if route.method == "GET" else ())):
                methods[method] = route
        self._access = access
        self._own_upstream_key = own_upstream_key
        self._bounds = bounds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _decline(scope["type"], receive, send)
            return
        methods = self._routes.get(scope["path"], {})
        route = methods.get(scope["method"])
        wire = next((other.wire for other in methods.values()), chat.WIRE) if route is None else route.wire
        exchange = Exchange(scope, receive, send, wire=wire, bounds=self._bounds)
        if route is None:
            await self._miss(exchange, scope, known=bool(methods))
            return
        try:
            caller = _ANYONE if route.public else await self._caller(exchange, scope, route)
            if isinstance(caller, Problem):
                await exchange.refuse(caller)
            else:
                await route.handle(exchange, caller)
        except Exception as error:  # the outermost frame: an unforeseen error is logged and reported to the client
            if not isinstance(error, ToolcaddieError):
                log.exception("request_failed", path=route.path)
            await exchange.fail(problem_of(error, own_upstream_key=self._own_upstream_key))

    async def _caller(self, exchange: Exchange, scope: Scope, route: Route) -> Caller | Problem:
        """Returns the sender, or the refusal."""
        if refusal := repeated_header(scope["headers"], exchange.headers):
            return refusal
        has_body = route.method == "POST"
        principal = await self._access.check(
            exchange.headers, client=exchange.client, has_body=has_body, key_headers=route.key_headers
        )
        if isinstance(principal, Problem):
            return principal
        return Caller(principal=principal, keyed=await self._access.has_keys())

    async def _miss(self, exchange: Exchange, scope: Scope, *, known: bool) -> None:
        """Answers a request without a route. `known`: True if its path has a route for another method.

        A path with a superfluous slash at its end is redirected to the route without the slash.
        """
        path: str = scope["path"]
        if known:
            message = f"{scope['method']} is not allowed here"
            await exchange.refuse(problem(405, message, kind="invalid_request_error"))
        elif path.endswith("/") and "GET" in self._routes.get(path.rstrip("/"), {}):
            query = f"?{exchange.query.decode('latin-1')}" if exchange.query else ""
            await exchange.answer(307, b"", {"location": f"{path.rstrip('/')}{query}"})
        else:
            message = f"there is nothing at {path[:200]}; {advice(path)}"
            await exchange.refuse(problem(404, message, kind="invalid_request_error", code="unknown_url"))


async def _decline(kind: str, receive: Receive, send: Send) -> None:
    """Handles ASGI scopes other than HTTP: confirms lifespan events, and closes web sockets."""
    if kind == "websocket":
        await send({"type": "websocket.close", "code": 1000, "reason": ""})
        return
    while kind == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
