"""The gateway as an ASGI application: `toolcaddie serve` and tests make it with `create_app`.

A door is a path for requests to models. Its wire translates between the API that its clients use and Toolcaddie's own types.
The upstream is the model's API behind the gateway. A run is Toolcaddie's own loop: it selects tools, asks the model and executes
its calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

from toolcaddie.app.settings import GatewaySettings, Idempotency, JobSettings, age_seconds
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.doors.gateway.access import Access, key_headers
from toolcaddie.doors.gateway.approval_pages import ApprovalPages
from toolcaddie.doors.gateway.authored_pages import AuthoredPages
from toolcaddie.doors.gateway.background import BackgroundResponses
from toolcaddie.doors.gateway.bodies import Bodies
from toolcaddie.doors.gateway.bots import BotModels
from toolcaddie.doors.gateway.counting import CountHandler, InputTokensHandler
from toolcaddie.doors.gateway.deferred import DeferredRequests
from toolcaddie.doors.gateway.deferred_pages import DeferredPages
from toolcaddie.doors.gateway.deferring import Deferring, ServerQueue
from toolcaddie.doors.gateway.deferring_handler import DeferringHandler
from toolcaddie.doors.gateway.essential import checked_pins
from toolcaddie.doors.gateway.handler import ModelHandler
from toolcaddie.doors.gateway.hidden import HiddenParts
from toolcaddie.doors.gateway.idempotency import Once
from toolcaddie.doors.gateway.json_pages import JsonPages
from toolcaddie.doors.gateway.limiting import Limiter
from toolcaddie.doors.gateway.onward import Onward
from toolcaddie.doors.gateway.pages import Pages
from toolcaddie.doors.gateway.passing import Passing
from toolcaddie.doors.gateway.problems import problem_of
from toolcaddie.doors.gateway.response_pages import ResponsePages
from toolcaddie.doors.gateway.responses import ResponsesHandler
from toolcaddie.doors.gateway.router import App, Route, Router
from toolcaddie.doors.gateway.serving import Serving
from toolcaddie.doors.gateway.stored import StoredResponses
from toolcaddie.doors.gateway.traffic import Traffic, WaitsSink
from toolcaddie.doors.gateway.untrusted import UntrustedNames
from toolcaddie.doors.gateway.writable import Writable
from toolcaddie.doors.reviewing import Reviews
from toolcaddie.ports import EventLog, KeyMeter, KeyStore, Store
from toolcaddie.ports.wires import DoorWire
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.durable_runs import DurableRuns
from toolcaddie.wires import chat, messages, responses

MODEL_DOORS: Mapping[str, DoorWire] = {
    "/v1/chat/completions": chat.WIRE,
    "/v1/responses": responses.WIRE,
    "/v1/messages": messages.WIRE,
}
"""The doors: paths of requests to models, with their wires. A new door is a line here."""

_DEFAULT_IDEMPOTENCY = Idempotency()
_DEFAULT_SETTINGS = GatewaySettings()
_DEFAULT_JOBS = JobSettings()


class Parts(Protocol):
    """The running parts that the gateway needs; `app.build.Assembled` has them."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def documents(self) -> Store: ...
    @property
    def event_log(self) -> EventLog: ...
    @property
    def keys(self) -> KeyStore: ...
    @property
    def meter(self) -> KeyMeter: ...
    @property
    def key_limits(self) -> Callable[[], KeyLimits]:
        """Returns the limits of keys that have none of their own; they may change while the server runs."""
        ...

    @property
    def registry(self) -> CollectorRegistry: ...
    @property
    def own_upstream_key(self) -> bool:
        """True if the upstream is asked with a key of the server, not with the client's."""
        ...


def create_app(
    parts: Parts,
    *,
    forwards: bool = True,
    bounds: Bounds = DEFAULT,
    idempotency: Idempotency = _DEFAULT_IDEMPOTENCY,
    doors: Mapping[str, DoorWire] = MODEL_DOORS,
    settings: GatewaySettings = _DEFAULT_SETTINGS,
    mounts: Mapping[str, App] | None = None,
    reviews: Reviews | None = None,
    traffic: Traffic | None = None,
    metrics: CollectorRegistry | None = None,
    queue: ServerQueue | None = None,
    jobs: JobSettings = _DEFAULT_JOBS,
    clock: Callable[[], float] = time.time,
) -> Router:
    """Returns the gateway. Its method `close` ends what it still does in the background.

    `forwards`: True if requests without tools go to the upstream byte for byte, provided that the upstream uses the wire of the
    door. False: they are answered by runs too, so that a fallback may answer if the upstream fails. `bounds`: the limits on sizes
    and times. `idempotency`: the settings of the answers that are stored for repeated requests. `doors`: paths with their wires.
    `settings`: other names of models, and the paths that are passed on. `mounts`: other applications by path, such as the MCP
    door; they authenticate their clients themselves. `reviews`: tools that bots wrote; None: no paths are about them. `traffic`
    admits requests; None: by the default settings. `metrics`: what `/metrics` shows; None: the registry of `parts`. `queue`: the
    durable queue, to which requests are handed that need not be answered at once; None: background responses run in this
    process, and `Prefer: respond-async` is ignored. `jobs`: limits of that work. `clock`: seconds since the epoch, for the
    limits of keys.
    """
    onward = Onward.to(parts.runtime.provider, own_key=parts.own_upstream_key)
    problem_for = partial(problem_of, own_upstream_key=onward.own_key)
    ways = Counter(
        "toolcaddie_gateway_requests", "Requests to models: forwarded, or run", ["way"], registry=parts.registry
    )
    ready = Gauge(
        "toolcaddie_ready",
        "1 if the database can be written and the tools can be read, as /readyz says.",
        registry=parts.registry,
        multiprocess_mode="mostrecent",
    )
    limiter = Limiter(parts.meter, parts.runtime, defaults=parts.key_limits, clock=clock)
    bots = BotModels(parts.runtime, settings.aliases.get(settings.default_model, settings.default_model))
    serving = Serving(
        runtime=parts.runtime,
        bots=bots,
        limiter=limiter,
        event_log=parts.event_log,
        once=Once(
            parts.documents,
            parts.event_log,
            idempotency,
            problem_for,
            is_stored=parts.runtime.is_stored,
            settle=parts.runtime.settle_answered,
        ),
        hidden=HiddenParts(parts.documents),
        bodies=Bodies(bounds.bodies),
        onward=onward,
        ways=ways,
        forwards=forwards,
        bounds=bounds,
        aliases=settings.aliases,
        default_model=settings.default_model,
        pinned=checked_pins(settings.pinned),
        untrusted=UntrustedNames(settings.untrusted_client_tools),
    )
    parts.runtime.add_sink(WaitsSink())
    writable = Writable(parts.event_log, parts.documents)
    every_key_header = key_headers(*(wire.name for wire in doors.values()))
    pages = Pages(
        parts.runtime,
        writable,
        metrics or parts.registry,
        bots=bots,
        onward=onward,
        key_headers=every_key_header,
        bounds=bounds,
        watchers=settings.metrics,
        ready=ready,
    )
    json_pages = JsonPages(bodies=serving.bodies, identified=parts.runtime.identified, key_headers=every_key_header)
    approvals = ApprovalPages(parts.runtime.approvals, json_pages)
    authored: Sequence[Route] = ()
    if reviews is not None:
        authored = AuthoredPages(reviews, json_pages).routes
    passing = Passing(
        parts.runtime.provider,
        onward=onward,
        bodies=serving.bodies,
        key_headers=every_key_header,
        passed=settings.passed,
        aliases=settings.aliases,
        bots=bots,
        limiter=limiter,
    )

    stored = StoredResponses(parts.documents, seconds=age_seconds(settings.keep_responses))
    deferring = Deferring(
        DeferredRequests(parts.documents, seconds=settings.async_hours * 3600.0),
        DurableRuns(runtime=parts.runtime, store=parts.documents),
        queue,
        bounds=bounds,
        problem_for=problem_for,
        at_once=settings.background_total,
        tenant_at_once=jobs.tenant_at_once,
        tenant_waiting=jobs.tenant_waiting,
    )
    background = BackgroundResponses(
        stored,
        parts.documents,
        deferring,
        most=settings.background_responses,
        total=settings.background_total,
        problem_for=problem_for,
        stopping=parts.runtime.begin_shutdown,
    )

    async def close() -> None:
        await background.close()
        limiter.close()

    def handler_of(wire: DoorWire) -> DeferringHandler:
        if wire.name == responses.WIRE.name:
            return ResponsesHandler(wire, serving, deferring, stored, background)
        return DeferringHandler(wire, serving, deferring)

    handlers = {path: handler_of(wire) for path, wire in doors.items()}
    deferring.bind(handlers)
    models = [
        Route(
            method="POST",
            path=path,
            wire=handler.wire,
            handle=handler.handle,
            key_headers=key_headers(handler.wire.name),
            works=True,
        )
        for path, handler in handlers.items()
    ]

    def counts_of(path: str, wire: DoorWire) -> Sequence[tuple[str, ModelHandler]]:
        if wire.name == messages.WIRE.name:
            return ((f"{path}/count_tokens", CountHandler(wire, serving)),)
        if wire.name == responses.WIRE.name:
            return ((f"{path}/input_tokens", InputTokensHandler(wire, serving, deferring, stored, background)),)
        return ()

    counts = [
        Route(
            method="POST",
            path=path,
            wire=wire,
            handle=handler.handle,
            key_headers=key_headers(wire.name),
            works=True,
        )
        for door, wire in doors.items()
        for path, handler in counts_of(door, wire)
    ]
    return Router(
        [
            *models,
            *counts,
            *pages.routes,
            *approvals.routes,
            *authored,
            *passing.routes,
            *DeferredPages(deferring, parts.runtime.identified, every_key_header).routes,
            *ResponsePages(stored, background, passing, parts.runtime.identified).routes,
        ],
        Access(parts.keys),
        own_upstream_key=onward.own_key,
        bounds=bounds,
        traffic=traffic or Traffic(bounds=bounds, registry=parts.registry, stopping=lambda: parts.runtime.stopping),
        elsewhere=passing,
        mounts=mounts,
        closing=close,
    )
