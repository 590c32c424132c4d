"""Counts what a database does as Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class DatabaseMetrics:
    """Implements `ports.StorageWatch`. Called in the thread that writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._commits = Histogram(
            "toolcaddie_database_commit_seconds",
            "Duration of a transaction that writes, with the time that it waited for locks and for the disk.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._failures = Counter(
            "toolcaddie_database_failures", "Transactions that could not be written.", registry=registry
        )
        self._trail_failures = Counter(
            "toolcaddie_trail_failures",
            "Writes of the trail that failed; until one succeeds nothing runs.",
            registry=registry,
        )
        self._leases = Counter(
            "toolcaddie_leases_lost",
            "Times at which other processes took this one for gone; the rows of its runs are dropped.",
            registry=registry,
        )

    def committed(self, seconds: float) -> None:
        self._commits.observe(seconds)

    def failed(self) -> None:
        self._failures.inc()

    def trail_failed(self) -> None:
        self._trail_failures.inc()

    def lease_lost(self) -> None:
        self._leases.inc()
