"""The gateway as an ASGI application: who asks, which way the request goes, and the plain pages around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

import aiohttp
import msgspec
from prometheus_client import CollectorRegistry, Counter, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolcaddie.app.settings import Idempotency
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ProviderProtocolError, StorageError, ToolcaddieError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.access import Access, doubled
from toolcaddie.doors.gateway.elsewhere import advice
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.handler import ModelHandler
from toolcaddie.doors.gateway.onward import Onward, answered_headers, answered_status
from toolcaddie.doors.gateway.problems import problem, problem_of
from toolcaddie.doors.gateway.writable import Writable
from toolcaddie.ports import EventLog, Forwarder, KeyStore, Store
from toolcaddie.providers.wrapping import wire_of
from toolcaddie.runtime import Runtime
from toolcaddie.util.log import Logger
from toolcaddie.wires import chat

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = Logger(__name__)

_KEPT_AS_DEFAULT = Idempotency()
CHAT_PATH = "/v1/chat/completions"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Parts(Protocol):
    """What the gateway needs of an assembled product."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def documents(self) -> Store: ...
    @property
    def event_log(self) -> EventLog: ...
    @property
    def keys(self) -> KeyStore: ...
    @property
    def registry(self) -> CollectorRegistry: ...
    @property
    def own_upstream_key(self) -> bool:
        """Whether the upstream is asked with a key of the server's own rather than the client's."""
        ...


def create_app(
    parts: Parts, *, forwards: bool = True, bounds: Bounds = DEFAULT, idempotency: Idempotency = _KEPT_AS_DEFAULT
) -> App:
    """The whole gateway. Chat requests go past the framework, straight to their handler: they are the hot path.

    `forwards`: what has no tools goes to the upstream byte for byte, if that speaks chat completions. False: it is read and
    asked like everything else, so that others may answer where the upstream fails.
    """
    access = Access(parts.keys)
    onward = Onward(own_key=parts.own_upstream_key)
    handler = ModelHandler(
        chat.WIRE,
        parts.runtime,
        parts.documents,
        parts.event_log,
        onward=onward,
        ways=_ways(parts.registry),
        forwards=forwards,
        bounds=bounds,
        idempotency=idempotency,
    )
    pages = _pages(parts, access, onward, bounds)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != CHAT_PATH:
            await pages(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, wire=chat.WIRE, bounds=bounds)
        if scope["method"] != "POST":
            await exchange.refuse(_not_allowed(scope["method"]))
            return
        try:
            if twice := doubled(scope["headers"], exchange.headers):
                await exchange.refuse(twice)
                return
            principal = await access.check(exchange.headers, client=exchange.client, has_body=True)
            if isinstance(principal, Problem):
                await exchange.refuse(principal)
                return
            await handler.handle(exchange, principal, keyed=await access.has_keys())
        except StorageError as error:  # without its keys the gateway knows nobody
            await exchange.fail(problem_of(error, own_upstream_key=onward.own_key))
        except (
            Exception
        ) as error:  # the outermost frame: what nobody foresaw is ours to log and the client's to hear of
            log.exception("chat_failed")
            await exchange.fail(problem_of(error, own_upstream_key=onward.own_key))

    return app


def _ways(registry: CollectorRegistry) -> Counter:
    return Counter("toolcaddie_gateway_requests", "Chat requests by the way they went", ["way"], registry=registry)


def _not_allowed(method: str) -> Problem:
    return problem(405, f"{method} is not allowed here", kind="invalid_request_error")


def _pages(parts: Parts, access: Access, onward: Onward, bounds: Bounds) -> Starlette:
    writable = Writable(parts.event_log, parts.documents)

    async def guarded(request: Request) -> Problem | None:
        client, headers = request.client.host if request.client else None, dict(request.headers.raw)
        if twice := doubled(request.headers.raw, headers):
            return twice
        try:
            found = await access.check(headers, client=client, has_body=False)
        except StorageError as error:
            return problem_of(error, own_upstream_key=onward.own_key)
        return found if isinstance(found, Problem) else None

    async def models(request: Request) -> Response:
        if refused := await guarded(request):
            return _refusal(refused)
        headers = onward.headers(dict(request.headers.raw), keyed=await access.has_keys(), once=True)
        provider = parts.runtime.provider
        try:
            if "authorization" in headers and isinstance(provider, Forwarder) and wire_of(provider) == "chat":
                return await _forwarded(provider, headers, bounds.answer)
            listed = await provider.models()
        except ToolcaddieError as error:
            return _refusal(problem_of(error, own_upstream_key=onward.own_key))
        return _json({"object": "list", "data": list(listed)})

    async def metrics(request: Request) -> Response:
        if refused := await guarded(request):
            return _refusal(refused)
        return Response(generate_latest(parts.registry), media_type=_METRICS_TYPE)

    async def healthz(request: Request) -> Response:
        return _json({"status": "ok"})

    async def readyz(request: Request) -> Response:
        try:
            await writable.check()
            tools = len(parts.runtime.source.snapshot())
        except ToolcaddieError as error:
            return _json({"status": "not ready", "reason": str(error)}, status=503)
        return _json({"status": "ready", "tools": tools, "provider": parts.runtime.provider.name})

    async def missing(request: Request, error: Exception) -> Response:
        path = request.url.path
        said = f"there is nothing at {path[:200]}; {advice(path)}"
        return _refusal(problem(404, said, kind="invalid_request_error", code="unknown_url"))

    async def wrong_method(request: Request, error: Exception) -> Response:
        return _refusal(_not_allowed(request.method))

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
        ],
        exception_handlers={404: missing, 405: wrong_method},
    )


async def _forwarded(provider: Forwarder, headers: Mapping[str, str], most: int) -> Response:
    """The upstream's own list for a client that brings its own key."""
    response = await provider.forward("GET", "/models", None, headers)
    try:
        body = b""
        while len(body) <= most and (piece := await response.content.readany()):
            body += piece
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ProviderProtocolError(f"the upstream cut its list of models short: {error}") from error
    finally:
        response.close()
    kind = dict(answered_headers(response)).get(b"content-type", b"application/json").decode("latin-1")
    return Response(body, status_code=answered_status(response), media_type=kind)


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def _refusal(found: Problem) -> Response:
    body = chat.WIRE.write_error(found)
    return Response(body, status_code=found.status, headers=dict(found.headers), media_type="application/json")
