"""The health of a process of the server, as far as the process knows it.

Nothing here asks another machine, so a page that shows it is quick.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from toolcaddie import __version__
from toolcaddie.app.build import Assembled
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.core.events import SourceStatus
from toolcaddie.doors.gateway.writable import Writable
from toolcaddie.storage.leases import Owner

_PACKAGES = (
    "aiohttp",
    "cedarpy",
    "dbos",
    "jinja2",
    "jsonschema-rs",
    "mcp",
    "msgspec",
    "numpy",
    "psycopg",
    "sqlalchemy",
    "uvicorn",
    "uvloop",
)
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Whether runs can be recorded and the catalog can be read, as `/readyz` says."""

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
class Health:
    """All of it."""

    ready: Ready
    database: DatabaseHealth
    processes: Sequence[Owner]
    """The processes that share the database and have a lease."""
    own_lease: int | None
    """The number of this process among them; None: the database cannot be written."""
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


class Checkup:
    """Makes the report. `clock`: seconds since the epoch."""

    def __init__(self, parts: Assembled, *, clock: Callable[[], float] = time.time) -> None:
        self._parts = parts
        self._writable = Writable(parts.event_log, parts.documents)
        self._started = clock()
        self._versions = _versions()

    async def report(self) -> Health:
        """Returns the report. What cannot be read is among its problems."""
        parts, problems = self._parts, list[str]()
        size: tuple[int | None, int | None] = (None, None)
        owners: Sequence[Owner] = ()
        own_lease, queue = None, None
        ready = await self._ready()
        if ready.ready:  # a database that takes no write would make each of these wait
            try:
                size = await parts.database.retention.size()
                own_lease = await parts.database.leases.own()
                owners = await parts.database.leases.owners()
                jobs = parts.database.jobs
                queue = QueueHealth(open=await jobs.open_slots(), next=await jobs.earliest())
            except ToolcaddieError as error:
                problems.append(str(error))
        settings, source = parts.settings, parts.runtime.source
        return Health(
            ready=ready,
            database=DatabaseHealth(
                place=parts.database.place, size=size[0], free=size[1], rows_waiting=parts.database.events.waiting
            ),
            processes=owners,
            own_lease=own_lease,
            queue=queue,
            provider=ProviderHealth(
                name=parts.provider.name,
                model=parts.runtime.default_model,
                fallbacks=[each.model for each in settings.fallback],
                own_key=parts.own_upstream_key,
                practice=parts.practice,
            ),
            degraded=parts.runtime.degraded,
            sandbox="wall" if settings.sandbox is None else settings.sandbox.type,
            tools=len(source.snapshot()),
            omitted=len(source.problems),
            failed_sources=[status for status in parts.source_states() if status.status == "failed"],
            process=self._process(),
            problems=problems,
        )

    async def _ready(self) -> Ready:
        begun, reason = time.perf_counter(), ""
        try:
            await self._writable.check()
            self._parts.runtime.source.snapshot()
        except ToolcaddieError as error:
            reason = str(error)
        return Ready(ready=not reason, reason=reason, seconds=round(time.perf_counter() - begun, 4))

    def _process(self) -> ProcessHealth:
        memory, peak = _memory()
        return ProcessHealth(
            version=__version__,
            python=platform.python_version(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            pid=os.getpid(),
            started=self._started,
            memory=memory,
            peak=peak,
            packages=self._versions,
        )


def _versions() -> Mapping[str, str]:
    """Returns the versions of the installed packages that matter most."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _memory() -> tuple[int | None, int | None]:
    """Returns the memory of this process in bytes, now and at its peak; None where the system does not say."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None, None
    values = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return _bytes(values.get("VmRSS")), _bytes(values.get("VmHWM"))


def _bytes(words: Sequence[str] | None) -> int | None:
    return int(words[0]) * 1024 if words else None
