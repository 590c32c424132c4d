"""Counts the requests to a server and measures them, whatever answers them: for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Collection, MutableMapping
from functools import cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from toolcaddie.doors.gateway.router import App, Receive, Scope, Send

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_OTHER = "other"
_CUT = "cut"
"""The status of a request that ended without an answer."""


class Measured:
    """An ASGI application around another one. `routes`: the paths that have a label of their own; further ones count as `other`,
    because anybody may ask for any path. `unmeasured`: those that are not counted, because something asks them all the time."""

    def __init__(
        self,
        app: App,
        registry: CollectorRegistry,
        *,
        routes: Collection[str],
        unmeasured: Collection[str] = ("/healthz", "/readyz", "/metrics"),
    ) -> None:
        self._app = app
        self._routes = frozenset(routes)
        self._unmeasured = frozenset(unmeasured)
        answers = Counter(
            "toolcaddie_gateway_answers", "Answers by path and HTTP status.", ["path", "status"], registry=registry
        )
        seconds = Histogram(
            "toolcaddie_gateway_seconds",
            "Duration of a request until the end of its answer.",
            ["path"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._answers_of, self._seconds_of = cache(answers.labels), cache(seconds.labels)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._unmeasured:
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._routes else _OTHER
        status: list[int] = []

        async def note(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        began = time.perf_counter()
        try:
            await self._app(scope, receive, note)
        finally:
            self._seconds_of(path).observe(time.perf_counter() - began)
            self._answers_of(path, str(status[0]) if status else _CUT).inc()
