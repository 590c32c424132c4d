"""Admits requests that need work: at once, after their turn has come, or not at all (status 429).

The router calls it before the body of a request is read, so requests that wait or are refused take hardly any memory. Health
checks, metrics, lists and the console do not pass here. `turns` decides whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ShutdownError
from toolcaddie.core.events import CallFinished, CallIntended, ModelAnswered, ModelAsked, RunEvent
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.bodies import declared_length
from toolcaddie.doors.gateway.load import Load
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.turns import Refusal, Turn, Turns
from toolcaddie.telemetry.receiving import ReceivingSink

_DEFAULT_SETTINGS = TrafficSettings()

_turn: ContextVar[Turn | None] = ContextVar("toolcaddie_turn", default=None)
"""The place of the request that the present task answers."""


class Traffic:
    """The requests of one process. All doors that run requests share it. `stopping` says whether the server shuts down."""

    def __init__(
        self,
        settings: TrafficSettings = _DEFAULT_SETTINGS,
        *,
        bounds: Bounds = DEFAULT,
        registry: CollectorRegistry,
        stopping: Callable[[], bool],
    ) -> None:
        """Raises `ConfigError` if the settings leave no connection for anything else."""
        self._settings, self._stopping = settings, stopping
        places = settings.places(bounds)
        self._places = places
        self._turns = Turns(
            requests=places.requests,
            waiting=places.waiting,
            per_tenant=places.per_tenant,
            wait_seconds=settings.wait_seconds,
            weights=settings.weights,
        )

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"toolcaddie_{name}", text, registry=registry, multiprocess_mode="livesum")

        self._at_work = gauge("requests_at_work", "Requests that are being answered.")
        self._waiting = gauge("requests_waiting", "Requests that wait for a place.")
        self._refused = Counter(
            "toolcaddie_requests_refused", "Requests that got no place.", ["reason"], registry=registry
        )

    async def serve(
        self, tenant: str, headers: Mapping[bytes, bytes], handle: Callable[[], Awaitable[None]]
    ) -> Problem | None:
        """Answers a request of a tenant with `handle`, when its turn comes. Returns the refusal if it does not come."""
        turn = self._turns.begin(tenant)
        if turn is None:
            outcome = await self._wait(tenant, headers)
            if isinstance(outcome, Refusal):
                self._refused.labels(outcome.reason).inc()
                return self._problem(outcome)
            turn = outcome
        self._at_work.inc()
        _turn.set(turn)
        try:
            await handle()
        finally:
            turn.end()
            self._at_work.dec()
        return None

    def load(self, most_tenants: int) -> Load:
        """Returns the requests of this moment. `most_tenants`: the largest number of tenants that it names."""
        return self._turns.load(most_tenants)

    async def _wait(self, tenant: str, headers: Mapping[bytes, bytes]) -> Turn | Refusal:
        self._waiting.inc()
        try:
            return await self._turns.wait(tenant, declared_length(headers))
        except asyncio.CancelledError as error:
            if not self._stopping():
                raise
            raise ShutdownError("the server was shut down before the turn of the request had come") from error
        finally:
            self._waiting.dec()

    def _problem(self, refusal: Refusal) -> Problem:
        places = self._places
        if refusal.reason == "late":
            what = f"no place became free within {self._settings.wait_seconds:g} seconds (setting traffic.wait_seconds)"
        else:
            what = (
                f"{places.requests:,} requests are being answered at most, and {places.waiting:,} may wait, shared among "
                "tenants (settings traffic.requests and traffic.waiting)"
            )
        return problem(
            429,
            f"the server is busy: {what}; try again in {refusal.retry_after} s",
            kind="rate_limit_error",
            code="too_many_requests",
            headers={"retry-after": str(refusal.retry_after)},
        )


def away() -> None:
    """Says that the request of the present task now waits for something outside, so that another one may compute."""
    turn = _turn.get()
    if turn is not None:
        turn.away()


class WaitsSink(ReceivingSink):
    """Says so for each request whose run asks a model or calls a tool, and says when the request computes again. It is a sink of
    the runtime (`ports.EventSink`)."""

    def __init__(self) -> None:
        super().__init__({ModelAsked: _leaves, CallIntended: _leaves, ModelAnswered: _returns, CallFinished: _returns})


def _leaves(event: RunEvent) -> None:
    away()


def _returns(event: RunEvent) -> None:
    turn = _turn.get()
    if turn is not None:
        turn.back()
