"""The metrics of circuit breakers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from toolcaddie.core.breakers import CircuitState
from toolcaddie.telemetry.limits import Labels


class CircuitMetrics:
    """Counts the states of circuits in `registry`: pass it as `observe` to `guards.breakers.Breakers`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._upstreams = Labels()
        self._open = Gauge(
            "toolcaddie_circuit_open",
            "Upstreams to which nothing is sent at present, or one request as a trial.",
            ["upstream"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._openings = Counter(
            "toolcaddie_circuit_openings", "Openings of the circuit to an upstream.", ["upstream"], registry=registry
        )

    def __call__(self, name: str, state: CircuitState) -> None:
        label = self._upstreams.of(name)
        self._open.labels(label).set(int(state != "closed"))
        if state == "open":
            self._openings.labels(label).inc()
