"""The load to plan for, and the machines on which it is to run."""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.evaluation.capacity.constants import Constants, Cost

_HIDDEN_PART = Cost(flushes=1)
"""Calls that the client does not see are stored before the answer ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests of the busiest minute, and the mean request. Shares are from 0 to 1."""

    requests_per_minute: float
    passed: float = 0.0
    """Share of requests that are passed on without the catalog's tools."""
    calls: float = 1.0
    """Calls of tools in a run."""
    rounds: float = 2.0
    """Answers of the model in a run."""
    writing: float = 0.3
    """Share of calls whose tools are neither read-only nor idempotent."""
    streaming: float = 0.0
    """Share of runs whose answer is streamed."""
    keyed: float = 0.0
    """Share of runs with an idempotency key."""
    tools: int = 100
    tenants: int = 1
    keep_days: float = 90.0
    average: float = 1.0
    """The mean rate of a day, as a share of the busiest minute; disks fill by the mean."""

    @property
    def per_second(self) -> float:
        return self.requests_per_minute / 60

    def request(self, constants: Constants) -> Cost:
        """Returns the cost of the mean request."""
        return Cost().plus(self.passed_request(constants), self.passed).plus(self.run(constants), 1 - self.passed)

    def passed_request(self, constants: Constants) -> Cost:
        return constants.costs(self.tools)["passed"]

    def run(self, constants: Constants) -> Cost:
        """Returns the cost of the mean run."""
        costs = constants.costs(self.tools)
        return (
            costs["run"]
            .plus(costs["round"], self.rounds - 1)
            .plus(costs["reading_call"], self.calls * (1 - self.writing))
            .plus(costs["writing_call"], self.calls * self.writing)
            .plus(costs["stream"], self.streaming)
            .plus(costs["key"], self.keyed)
            .plus(_HIDDEN_PART, min(1.0, self.calls))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The machines, and how far they are to be used."""

    utilisation: float = 0.6
    """Share of each resource that is used in the busiest minute."""
    server_cores: int = 4
    """Cores, and so processes, of a machine with servers."""
    database_cores: int = 16
    """Cores of a machine with PostgreSQL."""
    network_ms: float = 0.2
    """Time of a round trip from a server to PostgreSQL, beyond that on one machine."""
    iops: float = 10_000.0
    """Writes a second of PostgreSQL's disk."""
    disk_mb: float = 250.0
    """Megabytes a second of PostgreSQL's disk."""
    max_connections: int = 500
    """Connections that one PostgreSQL is given."""
