"""The health of a process of the server, as far as the process knows it.

Nothing here asks another machine, so a page that shows it is quick.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from toolcaddie import __version__
from toolcaddie.app.build import Assembled
from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.doors.console.health.replicas import process_leases, shared_version
from toolcaddie.doors.console.health.report import (
    DatabaseHealth,
    Health,
    ProcessHealth,
    ProcessLease,
    ProviderHealth,
    QueueHealth,
    Ready,
    SharedVersion,
)
from toolcaddie.doors.gateway.traffic import Traffic
from toolcaddie.doors.gateway.writable import Writable

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
_MOST_TENANTS = 50
"""Tenants whose requests are listed."""
_STATUS = Path("/proc/self/status")


class Checkup:
    """Makes the report. `traffic` admits the requests of this process; None: it takes every request. `clock`: seconds since the
    epoch."""

    def __init__(self, parts: Assembled, traffic: Traffic | None, *, clock: Callable[[], float] = time.time) -> None:
        self._parts = parts
        self._traffic = traffic
        self._writable = Writable(parts.event_log, parts.documents)
        self._started = clock()
        self._versions = _versions()

    async def report(self) -> Health:
        """Returns the report. What cannot be read is among its problems."""
        parts, problems = self._parts, list[str]()
        size: tuple[int | None, int | None] = (None, None)
        leases: Sequence[ProcessLease] = ()
        shared: SharedVersion | None = None
        own_lease, queue = None, None
        ready = await self._ready()
        if ready.ready:  # a database that takes no write would make each of these wait
            try:
                size = await parts.database.retention.size()
                own_lease = await parts.database.leases.own()
                leases = await process_leases(parts.database)
                shared = await shared_version(parts.documents)
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
            processes=leases,
            own_lease=own_lease,
            shared=shared,
            circuits=parts.breakers.circuits,
            traffic=None if self._traffic is None else self._traffic.load(_MOST_TENANTS),
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
