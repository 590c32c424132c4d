"""The report about the health of a process of the server. A program that asks the page for JSON gets it as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.app.following import ServerState
from toolcaddie.core.breakers import Circuit
from toolcaddie.core.events import SourceStatus
from toolcaddie.doors.gateway.load import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The readiness, as `/readyz` reports it: runs can be recorded and the catalog can be read."""

    ready: bool
    reason: str
    """Empty: it is ready."""
    seconds: float
    """The time that a small write took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseHealth:
    """The database."""

    place: str
    size: int | None
    """Bytes; None: it cannot be read."""
    free: int | None
    rows_waiting: int
    """Rows of the trail that may not be on disk yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The durable work: slots of jobs that have not ended, by status, and when the next one is due."""

    open: Mapping[str, int]
    next: float | None
    """Seconds since the epoch; None: no job has a next slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderHealth:
    """The models."""

    name: str
    model: str
    fallbacks: Sequence[str]
    own_key: bool
    """True if the server asks with a key of its own."""
    practice: bool
    """True: rules answer instead of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHealth:
    """The process that made the page. A server with workers has several."""

    version: str
    python: str
    system: str
    pid: int
    started: float
    memory: int | None
    """Bytes now; None: the system does not say."""
    peak: int | None
    """The most bytes so far."""
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLease:
    """A process that shares the database, as far as it says so there."""

    number: int
    """The number of its lease."""
    process: str
    started: float
    seconds: float
    """The length of its lease."""
    age: float | None
    """Seconds since this process saw that lease renewed; None: it has not looked yet."""
    settings: ServerState | None
    """The version of the shared settings that it has; None: it does not follow them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVersion:
    """The settings that are shared among the servers on a database."""

    version: str
    by: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All of it."""

    ready: Ready
    database: DatabaseHealth
    processes: Sequence[ProcessLease]
    """The processes that share the database and have a lease."""
    own_lease: int | None
    """The number of this process among them; None: the database cannot be written."""
    shared: SharedVersion | None
    """The shared settings; None: none are shared, or the database cannot be read."""
    circuits: Sequence[Circuit]
    """The circuits of this process to the upstreams."""
    traffic: Load | None
    """The requests of this process; None: it takes every request at once."""
    queue: QueueHealth | None
    """None: the database cannot be read."""
    provider: ProviderHealth
    degraded: Sequence[str]
    """A sentence for each part that does not work at the moment, with what replaces it."""
    sandbox: str
    tools: int
    omitted: int
    """Number of tools that the catalog leaves out."""
    failed_sources: Sequence[SourceStatus]
    process: ProcessHealth
    problems: Sequence[str]
    """Parts that could not be read for this report."""
