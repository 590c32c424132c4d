"""Computes what a load needs: servers, databases, disks, connections, and the latency that follows. Values in, values out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.core.errors import ConfigError
from toolcaddie.evaluation.capacity.constants import Constants, Cost
from toolcaddie.evaluation.capacity.load import Load, Site
from toolcaddie.evaluation.capacity.queues import percentile, spread, waiting
from toolcaddie.evaluation.capacity.recording import Recording, most_rows_a_second, recording

_DAY = 86_400
_MEGABYTE = 1e6
_MOST_DATABASES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A resource, and the rate at which one of it is used as far as is planned."""

    resource: str
    requests_per_minute: float
    remedy: str
    """The advice for loads beyond that rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The machines and resources that a load needs."""

    processes: int
    """Processes of servers; each uses one core."""
    machines: int
    """Machines with servers."""
    server_ms: float
    """CPU of the servers for a request."""
    server_utilisation: float
    process_mb: float
    """Memory of a process of a server."""
    databases: int
    """PostgreSQL servers, each with the runs of some of the tenants. What follows is for one of them."""
    database_cores: int
    database_ms: float
    """CPU of PostgreSQL for a request."""
    connections: int
    commits_per_second: float
    rows_per_second: float
    rows_per_commit: float
    trail_utilisation: float
    """Rows a second, as a share of those that one trail can take."""
    lock_utilisation: float
    """Share of the time in which the head of the trail is locked. It nears 1 long before the trail is used up, because the
    longer commits wait for each other, the more rows each of them has."""
    disk_writes_per_second: float
    disk_mb_per_second: float
    disk_bytes: float
    """Disk for the rows that are kept, of one database."""
    p50_ms: float
    """Time that is added to those of the model and of the tools."""
    p99_ms: float
    ceilings: Sequence[Ceiling]
    """The lowest rate first."""


def plan(load: Load, constants: Constants, site: Site) -> Plan:
    """Returns what a load needs. Raises `ConfigError` if no number of machines is enough."""
    for databases in range(1, _MOST_DATABASES + 1):
        figures = _Figures.of(load, constants, site, databases)
        if figures.is_enough:
            return figures.plan()
    raise ConfigError(
        f"{load.requests_per_minute:,.0f} requests a minute need more than {_MOST_DATABASES:,} databases; "
        "give the machines of PostgreSQL more cores, or faster disks and networks"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The use of everything by a load, with a number of databases and of processes."""

    load: Load
    constants: Constants
    databases: int
    processes: int
    request: Cost
    recording: Recording
    site: Site

    @classmethod
    def of(cls, load: Load, constants: Constants, site: Site, databases: int) -> _Figures:
        """Returns the figures with as few processes as keep below the planned utilisation."""
        request, commit = load.request(constants), constants.commit
        least = load.per_second * (request.server_ms + request.rows * commit.row_server_ms) / 1e3 / site.utilisation
        processes = max(databases, math.ceil(least))
        while True:
            rate = load.per_second / processes
            figures = cls(
                load=load,
                constants=constants,
                databases=databases,
                processes=processes,
                request=request,
                recording=recording(
                    rows=rate * request.rows,
                    flushes=rate * request.flushes,
                    writers=processes / databases,
                    commit=commit,
                    network_ms=site.network_ms,
                ),
                site=site,
            )
            if figures.server_utilisation <= site.utilisation:
                return figures
            processes += max(1, processes // 100)

    @property
    def commits_per_second(self) -> float:
        """Returns the commits a second of all databases."""
        return self.processes * self.recording.commits

    def cpu_ms(self, own: float, commit_ms: float, row_ms: float) -> float:
        """Returns the CPU of a request together with its share of commits and its rows."""
        commits = self.commits_per_second / self.load.per_second
        return own + commits * commit_ms + self.request.rows * row_ms

    @property
    def server_ms(self) -> float:
        commit = self.constants.commit
        return self.cpu_ms(self.request.server_ms, commit.server_ms, commit.row_server_ms)

    @property
    def database_ms(self) -> float:
        commit = self.constants.commit
        return self.cpu_ms(self.request.database_ms, commit.database_ms, commit.row_database_ms)

    @property
    def server_utilisation(self) -> float:
        return self.load.per_second * self.server_ms / 1e3 / self.processes

    @property
    def rate(self) -> float:
        """Returns the requests a second of one database."""
        return self.load.per_second / self.databases

    @property
    def is_enough(self) -> bool:
        """Returns True if no database is used further than planned."""
        each = self.load.requests_per_minute / self.databases
        return all(ceiling.requests_per_minute >= each for ceiling in self._database_ceilings())

    def ceilings(self) -> Sequence[Ceiling]:
        """Returns the rate at which one process, or one database, is used as far as is planned, the lowest first."""
        core = self._ceiling("core of a server", 1e3 / self.server_ms, "a further process or machine")
        return sorted([core, *self._database_ceilings()], key=lambda each: each.requests_per_minute)

    def _database_ceilings(self) -> list[Ceiling]:
        site, request, constants = self.site, self.request, self.constants
        writes = self.commits_per_second / self.load.per_second * constants.commit.disk_writes
        megabytes = (request.wal_bytes + request.disk_bytes) / _MEGABYTE
        # Connections are held and not used up by and by, so all of them may be taken.
        processes = site.max_connections / constants.connections / site.utilisation
        connected = processes * self.load.per_second / self.processes
        cores = _divided(site.database_cores * 1e3, self.database_ms)
        split = "a further database, with some of the tenants"
        ceilings = (
            self._ceiling("lock of the trail of one database", _divided(self._most_rows, request.rows), split),
            self._ceiling("cores of one PostgreSQL", cores, f"more cores, or {split}"),
            self._ceiling("writes of its disk", _divided(site.iops, writes), f"a faster disk, or {split}"),
            self._ceiling("megabytes a second of its disk", _divided(site.disk_mb, megabytes), f"a faster disk, or {split}"),
            self._ceiling("connections of one PostgreSQL", connected, f"max_connections, or {split}"),
        )  # fmt: skip
        return [ceiling for ceiling in ceilings if math.isfinite(ceiling.requests_per_minute)]

    def _ceiling(self, resource: str, per_second: float, remedy: str) -> Ceiling:
        rate = 60 * self.site.utilisation * per_second
        return Ceiling(resource=resource, requests_per_minute=rate, remedy=remedy)

    @property
    def _most_rows(self) -> float:
        return most_rows_a_second(self.constants.commit, self.site.network_ms)

    def plan(self) -> Plan:
        rate, memory = self.rate, self.constants.memory
        p50, p99 = self._latency()
        return Plan(
            processes=self.processes,
            machines=math.ceil(self.processes / self.site.server_cores),
            server_ms=self.server_ms,
            server_utilisation=self.server_utilisation,
            process_mb=memory.process_mb
            + memory.thousand_tools_mb * self.load.tools / 1e3
            + memory.tenant_mb * self.load.tenants / self.databases,
            databases=self.databases,
            database_cores=max(1, math.ceil(rate * self.database_ms / 1e3 / self.site.utilisation)),
            database_ms=self.database_ms,
            connections=math.ceil(self.processes / self.databases) * self.constants.connections,
            commits_per_second=self.commits_per_second / self.databases,
            rows_per_second=rate * self.request.rows,
            rows_per_commit=self.recording.rows,
            trail_utilisation=rate * self.request.rows / self._most_rows,
            lock_utilisation=self.recording.lock_utilisation,
            disk_writes_per_second=self.commits_per_second / self.databases * self.constants.commit.disk_writes,
            disk_mb_per_second=rate * (self.request.wal_bytes + self.request.disk_bytes) / _MEGABYTE,
            disk_bytes=rate * self.load.average * _DAY * self.load.keep_days * self.request.disk_bytes,
            p50_ms=p50 * 1e3,
            p99_ms=p99 * 1e3,
            ceilings=self.ceilings(),
        )

    def _latency(self) -> tuple[float, float]:
        """Returns the median and the 99th percentile of the seconds that are added to those of the model and of the tools."""
        load, constants = self.load, self.constants
        run = load.run(constants)
        recorded = self.server_ms - self.request.server_ms
        passed_seconds = self._seconds(load.passed_request(constants), recorded)
        run_seconds = self._seconds(run, recorded)
        mean = self.server_ms / 1e3
        between = load.passed * (passed_seconds - mean) ** 2 + (1 - load.passed) * (run_seconds - mean) ** 2
        wait = waiting(self.processes, load.per_second, mean, constants.variation + between / mean**2)
        writing = min(1.0, run.flushes)  # share of runs that wait for the disk
        flushes = [seconds * run.flushes / writing for seconds in self.recording.flushes()] if writing else []
        runs = spread(run_seconds, constants.variation)
        services = [
            *_equal(load.passed, spread(passed_seconds, constants.variation)),
            *_equal((1 - load.passed) * (1 - writing), runs),
            *_equal((1 - load.passed) * writing, [own + flush for own in runs for flush in flushes]),
        ]
        return percentile(0.5, services, wait), percentile(0.99, services, wait)

    @staticmethod
    def _seconds(cost: Cost, recorded_ms: float) -> float:
        return (cost.server_ms + cost.database_ms + recorded_ms) / 1e3


def _equal(share: float, seconds: Sequence[float]) -> list[tuple[float, float]]:
    """Returns the times, each with the same part of a share of the requests."""
    return [(share / len(seconds), each) for each in seconds]


def _divided(amount: float, by: float) -> float:
    return amount / by if by > 0 else math.inf
