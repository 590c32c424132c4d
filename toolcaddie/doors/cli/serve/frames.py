"""The frames around the gateway: what happens to each request before and after any door sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from toolcaddie.app.exporting import Providers
from toolcaddie.doors.cli.draining import Draining
from toolcaddie.doors.gateway.app import MODEL_DOORS
from toolcaddie.doors.gateway.router import App, Receive, Scope, Send
from toolcaddie.doors.gateway.traced import Traced
from toolcaddie.util.log import Logger

log = Logger(__name__)

_PROXY_HEADERS = frozenset({b"x-forwarded-for", b"x-forwarded-proto"})


def until_cut(app: App, draining: Draining, *, trusted: list[str] | str) -> App:
    """Returns an application that logs one line, instead of a traceback, for a request that is cancelled at shutdown. Before,
    `draining` turns clients away. `trusted`: the proxies whose headers name the client of a request, as uvicorn reads them."""
    behind_proxy: Any = ProxyHeadersMiddleware(app, trusted_hosts=trusted)  # type: ignore[arg-type]

    async def cut_short(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            to_answer = behind_proxy if _is_forwarded(scope) else app
            if draining.has_begun:
                await draining.answer(to_answer, scope, receive, send)
            else:
                await to_answer(scope, receive, send)
        except asyncio.CancelledError:
            # Not raised again: this is the outermost frame of a request, and the server would log a traceback.
            log.warning("request_cut_at_shutdown", path=scope.get("path"))

    return cut_short


def traced(app: App, providers: Providers, paths: Collection[str]) -> App:
    """Returns an application that makes a span for each request, if spans or metrics go to a collector. `paths`: those of the MCP
    door."""
    if providers.tracer_provider is None and providers.meter_provider is None:
        return app
    return Traced(
        app,
        tracer_provider=providers.tracer_provider,
        meter_provider=providers.meter_provider,
        routes=(*MODEL_DOORS, *paths),
    )


def _is_forwarded(scope: Scope) -> bool:
    """Returns True if a proxy has added the address of the client, or its scheme, to a request."""
    return not _PROXY_HEADERS.isdisjoint([name for name, _ in scope.get("headers", ())])
