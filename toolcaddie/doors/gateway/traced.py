"""A span for each request to the gateway, which continues the trace of its client.

Only a server whose settings name a collector has this layer. Runs, and requests that go to the upstream byte for byte, belong to
the span of their request.
"""

from __future__ import annotations

import time
from collections.abc import Collection, MutableMapping
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolcaddie.doors.gateway.router import App, Receive, Scope, Send
from toolcaddie.util.tracing import set_trace_headers

_PROPAGATOR = TraceContextTextMapPropagator()
_CONTINUED = (b"traceparent", b"tracestate")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Upper bounds that OpenTelemetry recommends for durations of HTTP requests."""


class Traced:
    """An ASGI application around another one. `routes`: the paths that are named in spans and metrics; `untraced`: those that
    have no span, because something asks them every few seconds."""

    def __init__(
        self,
        app: App,
        *,
        tracer_provider: Any,
        meter_provider: Any,
        routes: Collection[str],
        untraced: Collection[str] = ("/healthz", "/readyz", "/metrics"),
    ) -> None:
        self._app = app
        self._tracer = trace.get_tracer("toolcaddie.gateway", tracer_provider=tracer_provider)
        self._durations = metrics.get_meter("toolcaddie.gateway", meter_provider=meter_provider).create_histogram(
            "http.server.request.duration",
            unit="s",
            description="Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._routes = frozenset(routes)
        self._untraced = frozenset(untraced)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._untraced:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        route = {"http.route": scope["path"]} if scope["path"] in self._routes else {}
        common = {"http.request.method": method, "url.scheme": scope.get("scheme", "http"), **route}
        parent = _PROPAGATOR.extract(
            {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CONTINUED}
        )
        span = self._tracer.start_span(
            " ".join((method, *route.values())),
            parent,
            SpanKind.SERVER,
            attributes={**common, "url.path": scope["path"]},
        )
        here = trace.set_span_in_context(span)
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, here)
        set_trace_headers(headers)
        outcome: dict[str, Any] = {}

        async def note(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                outcome["http.response.status_code"] = message["status"]
                if message["status"] >= 500:
                    outcome["error.type"] = str(message["status"])
            await send(message)

        began, token = time.perf_counter(), context.attach(here)
        try:
            await self._app(scope, receive, note)
        except BaseException as error:
            outcome["error.type"] = type(error).__name__
            raise
        finally:
            context.detach(token)
            self._durations.record(time.perf_counter() - began, {**common, **outcome})
            span.set_attributes(outcome)
            if "error.type" in outcome:
                span.set_status(Status(StatusCode.ERROR))
            span.end()
            set_trace_headers({})
