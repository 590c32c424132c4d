"""Measures commits of the trail: their time, the time of their lock, and their CPU, by the number of rows.

One process writes groups of rows as a server does. The lock is held from the answer to `SELECT ... FOR UPDATE` until the
connection returns to its pool, which is after the commit.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Engine, Pool, event

from benchmarks.replicas.delay import delayed
from benchmarks.replicas.postgres import Postgres
from toolcaddie.core.storage import EventRecord
from toolcaddie.evaluation.capacity.constants import Commit
from toolcaddie.storage.database import Database
from toolcaddie.storage.journal import HURRY_AT
from toolcaddie.storage.writer import LINGER

_GROUPS = {1: 150, 8: 80, 32: 40, 128: 20}
"""Number of groups by their number of rows."""
_DELAYED_GROUPS = {1: 30}
_DELAY = 0.005
"""Delay of a network in each direction, in seconds, by which round trips are counted."""
_HEAD = "trail_head"
_DATA = {"text": "x" * 600}
"""About the size of a row of a run."""


class _Locks:
    """The times for which the lock was held."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._began: float | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        listeners: Sequence[tuple[Any, str, Callable[..., None]]] = (
            (Engine, "after_cursor_execute", self._executed),
            (Pool, "reset", self._returned),
        )
        for target, name, listener in listeners:
            event.listen(target, name, listener)
        try:
            yield
        finally:
            for target, name, listener in listeners:
                event.remove(target, name, listener)

    def _executed(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if _HEAD in statement and "FOR UPDATE" in statement:
            self._began = time.perf_counter()

    def _returned(self, *_: Any) -> None:
        if self._began is not None:
            self.times.append(time.perf_counter() - self._began)
            self._began = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Cost of a commit of a number of rows, in seconds."""

    rows: int
    whole: float
    lock: float
    server: float
    database: float
    waits: Sequence[float]
    """The seconds of each commit in which this process did nothing."""


async def measured_commit(
    postgres: Postgres, database_seconds: Callable[[], float], *, pause: float = 0.0
) -> tuple[Commit, Sequence[float]]:
    """Returns the costs of a commit, and the seconds for which each commit of one row did not use a core: it waited for the disk.
    `database_seconds`: returns the CPU of PostgreSQL until now. `pause`: seconds between two commits, after which caches are
    cold, as under a load that does not fill the cores."""
    groups = await _groups(postgres.url, _GROUPS, database_seconds, pause)
    async with delayed(postgres.port, _DELAY) as port:
        [slow] = await _groups(
            postgres.url.replace(f":{postgres.port}/", f":{port}/"), _DELAYED_GROUPS, database_seconds, pause
        )
    one = groups[0]
    trip = 2 * _DELAY
    lines = {
        name: _line([group.rows for group in groups], [getattr(group, name) for group in groups])
        for name in ("whole", "lock", "server", "database")
    }
    commit = Commit(
        server_ms=lines["server"][0],
        row_server_ms=lines["server"][1],
        database_ms=lines["database"][0],
        row_database_ms=lines["database"][1],
        seconds_ms=lines["whole"][0],
        row_seconds_ms=lines["whole"][1],
        lock_ms=lines["lock"][0],
        row_lock_ms=lines["lock"][1],
        linger_ms=LINGER * 1e3,
        most_rows=HURRY_AT,
        round_trips=max(0.0, (slow.whole - one.whole) / trip),
        lock_round_trips=max(0.0, (slow.lock - one.lock) / trip),
        disk_writes=1,
    )
    return commit, [max(0.0, wait - one.database) for wait in one.waits]


async def _groups(
    url: str, groups: Mapping[int, int], database_seconds: Callable[[], float], pause: float
) -> Sequence[_Group]:
    locks = _Locks()
    async with Database(url) as database:
        await database.leases.own()
        await _write(database, rows=1, groups=3, pause=0.0)  # the connection is open, and statements are compiled
        with locks.watching():
            measured = []
            for rows, count in groups.items():
                locks.times.clear()
                cpu, before = time.process_time(), database_seconds()
                seconds, waits = await _write(database, rows=rows, groups=count, pause=pause)
                measured.append(
                    _Group(
                        rows=rows,
                        whole=statistics.median(seconds),
                        lock=statistics.median(locks.times),
                        server=(time.process_time() - cpu) / count,
                        database=(database_seconds() - before) / count,
                        waits=waits,
                    )
                )
    return measured


async def _write(database: Database, *, rows: int, groups: int, pause: float) -> tuple[list[float], list[float]]:
    """Writes groups of rows, and returns the seconds of each, and those in which this process did nothing."""
    seconds, waits = [], []
    for _ in range(groups):
        await asyncio.sleep(pause)
        run = f"commit_{uuid.uuid4().hex}"
        began, cpu = time.perf_counter(), time.process_time()
        for seq in range(1, rows + 1):
            database.events.append(EventRecord(run_id=run, seq=seq, at=0.0, kind="note", data=_DATA))
        await database.events.flush()
        seconds.append(time.perf_counter() - began)
        waits.append(seconds[-1] - (time.process_time() - cpu))
    return seconds, waits


def _line(rows: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Returns the milliseconds of a commit and of each row in it, by least squares of the relative errors."""
    weights = 1 / np.array(seconds)
    matrix = np.stack([np.ones(len(rows)), np.array(rows)], axis=1) * weights[:, None]
    base, each = np.linalg.lstsq(matrix, np.ones(len(rows)), rcond=None)[0]
    return max(0.0, float(base)) * 1e3, max(0.0, float(each)) * 1e3
