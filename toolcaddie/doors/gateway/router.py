"""The gateway's table of routes, an ASGI application: it finds the handler of a request by path and method.

Before it calls the handler, it refuses repeated headers and authenticates the client. It sends every error that a handler raises
to the client. It uses no web framework: requests to models must be fast, and the few other routes need none.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import msgspec

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.storage import ApiKey
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.access import AUTHORIZATION, Access, Sender, repeated_header
from toolcaddie.doors.gateway.elsewhere import PASSED, advice
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.problems import problem, problem_of
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.ports.wires import DoorWire
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.wires import chat

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = Logger(__name__)

_CHANNEL = "gateway"
"""The channel of the principals of this door."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of a request. `principal`: the user, bot, role and tenant in whose name the request runs. `key`: the key of the
    gateway that the client sent, which is not forwarded to the model's API; None: the gateway has no keys. `by_bot`: True if the
    request names the bot of the principal as its model."""

    principal: Principal
    key: ApiKey | None = None
    by_bot: bool = False

    @property
    def keyed(self) -> bool:
        return self.key is not None


_ANYONE = Caller(principal=Principal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path and method. A GET route answers HEAD as well. `{name}` in a path stands for one segment, `{name*}` for one or
    more; the handler finds the text there in `Exchange.part`."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    handle: Callable[[Exchange, Caller], Awaitable[None]]
    wire: DoorWire = chat.WIRE
    """The wire (API format) in which errors are written."""
    key_headers: Collection[bytes] = (AUTHORIZATION,)
    """Headers that may contain the API key."""
    public: bool = False
    """True if no key is required."""
    works: bool = False
    """True if requests need work, so that they wait for their turn (`Traffic`)."""


class Elsewhere(Protocol):
    """Answers requests to paths without a route, if it accepts them."""

    key_headers: Collection[bytes]

    def may_accept(self, method: str, path: str) -> bool:
        """Returns True if `accepts` is worth asking, which needs the sender."""
        ...

    def accepts(self, method: str, exchange: Exchange, caller: Caller) -> bool: ...
    async def handle(self, method: str, exchange: Exchange, caller: Caller) -> None: ...


class Router:
    """An ASGI application over a table of routes. `elsewhere` gets the requests to paths that are not in the table.
    `traffic` admits the requests that need work. `mounts`: other applications by path, which authenticate their clients
    themselves; one at a path that ends in `/` gets all paths below. `closing`: see `close`."""

    def __init__(
        self,
        routes: Iterable[Route],
        access: Access,
        *,
        own_upstream_key: bool,
        bounds: Bounds,
        traffic: Traffic,
        elsewhere: Elsewhere | None = None,
        mounts: Mapping[str, App] | None = None,
        closing: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            methods = self._routes.setdefault(route.path, {})
            for method in (route.method, *(("HEAD",) if route.method == "GET" else ())):
                methods[method] = route
        self._patterns = [(_pattern(path), methods) for path, methods in self._routes.items() if "{" in path]
        self._traffic = traffic
        self._elsewhere = elsewhere
        self._access = access
        self._own_upstream_key = own_upstream_key
        self._bounds = bounds
        self._mounts = mounts or {}
        self._mounted_folders = tuple(path for path in self._mounts if path.endswith("/"))
        self._closing = closing
        self._last = (Sender(principal=_ANYONE.principal), _ANYONE)
        """The sender of the last request, and its caller: without keys, most requests have the same."""

    async def close(self) -> None:
        """Ends the work that continues after its request was answered."""
        if self._closing is not None:
            await self._closing()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _decline(scope["type"], receive, send)
            return
        if mounted := self._mounted(scope["path"]):
            await mounted(scope, receive, send)
            return
        methods, part = self._found(scope["path"])
        route = methods.get(scope["method"])
        wire = self._wire_at(scope["path"], methods) if route is None else route.wire
        exchange = Exchange(scope, receive, send, wire=wire, bounds=self._bounds, part=part)
        try:
            if route is None:
                await self._other(exchange, scope, methods)
                return
            has_body = route.method == "POST"
            caller = (
                _ANYONE if route.public else await self._caller(exchange, scope, route.key_headers, has_body=has_body)
            )
            if isinstance(caller, Problem):
                await exchange.refuse(caller)
            elif route.works:
                await self._at_its_turn(exchange, caller, partial(route.handle, exchange, caller))
            else:
                await route.handle(exchange, caller)
        except Exception as error:  # the outermost frame: an unforeseen error is logged and reported to the client
            if not isinstance(error, ToolcaddieError):
                log.exception("request_failed", path=scope["path"][:200])
            await exchange.fail(problem_of(error, own_upstream_key=self._own_upstream_key))

    async def _at_its_turn(self, exchange: Exchange, caller: Caller, handle: Callable[[], Awaitable[None]]) -> None:
        """Answers a request that needs work, or refuses it if too many others do."""
        refusal = await self._traffic.serve(caller.principal.tenant, exchange.headers, handle)
        if refusal is not None:
            await exchange.refuse(refusal)

    def _mounted(self, path: str) -> App | None:
        """Returns the other application of a path; None: it is the gateway's own."""
        if path.startswith(self._mounted_folders):
            return next(app for folder, app in self._mounts.items() if folder.endswith("/") and path.startswith(folder))
        return self._mounts.get(path)

    def _found(self, path: str) -> tuple[Mapping[str, Route], str]:
        """Returns the routes of a path by method, and the text at the place of `{name}` in their path."""
        methods = self._routes.get(path)
        if methods is not None:
            return methods, ""
        for pattern, others in self._patterns:
            if match := pattern.fullmatch(path):
                return others, match[1]
        return {}, ""

    def _wire_at(self, path: str, methods: Mapping[str, Route]) -> DoorWire:
        """Returns the wire of the error that answers a request without a route: that of its path, or of a path above it."""
        for known in (methods, *(self._routes[door] for door in self._routes if path.startswith(f"{door}/"))):
            if known:
                return next(iter(known.values())).wire
        return chat.WIRE

    async def _caller(
        self, exchange: Exchange, scope: Scope, key_headers: Collection[bytes], *, has_body: bool
    ) -> Caller | Problem:
        """Returns the sender, or the refusal."""
        if refusal := repeated_header(scope["headers"], exchange.headers):
            return refusal
        sender = await self._access.sender(
            exchange.headers, client=exchange.client, has_body=has_body, key_headers=key_headers
        )
        if isinstance(sender, Problem):
            return sender
        last, caller = self._last
        if sender.principal is not last.principal or sender.key is not last.key:
            caller = Caller(principal=replace(sender.principal, channel=_CHANNEL), key=sender.key)
            self._last = (sender, caller)
        return caller

    async def _other(self, exchange: Exchange, scope: Scope, methods: Collection[str]) -> None:
        """Answers a request without a route: passes it on if that is allowed, else refuses it. `methods`: those with which its
        path has routes."""
        method, elsewhere = scope["method"], self._elsewhere
        if elsewhere is not None and elsewhere.may_accept(method, scope["path"]):
            has_body = method not in ("GET", "HEAD", "DELETE")
            caller = await self._caller(exchange, scope, elsewhere.key_headers, has_body=has_body)
            if not isinstance(caller, Problem) and elsewhere.accepts(method, exchange, caller):
                await self._at_its_turn(exchange, caller, partial(elsewhere.handle, method, exchange, caller))
                return
        await self._miss(exchange, scope, methods)

    async def _miss(self, exchange: Exchange, scope: Scope, methods: Collection[str]) -> None:
        """Answers a request without a route. `methods`: those with which its path has routes.

        A path with a superfluous slash at its end is redirected to the route without the slash.
        """
        path: str = scope["path"]
        if methods:
            allowed = ", ".join(sorted(methods))
            message = f"{scope['method']} is not allowed at {path[:200]}, only {allowed}; {PASSED}"
            await exchange.refuse(problem(405, message, kind="invalid_request_error", headers={"allow": allowed}))
        elif path.endswith("/") and "GET" in self._routes.get(path.rstrip("/"), {}):
            query = f"?{exchange.query.decode('latin-1')}" if exchange.query else ""
            await exchange.answer(307, b"", {"location": f"{path.rstrip('/')}{query}"})
        else:
            message = f"there is nothing at {path[:200]}; {advice(path)}"
            await exchange.refuse(problem(404, message, kind="invalid_request_error", code="unknown_url"))


def _pattern(path: str) -> re.Pattern[str]:
    """Returns the regular expression of a path with `{name}` or `{name*}`."""
    before, _, rest = path.partition("{")
    name, _, after = rest.partition("}")
    return re.compile(f"{re.escape(before)}({'.+' if name.endswith('*') else '[^/]+'}){re.escape(after)}")


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
