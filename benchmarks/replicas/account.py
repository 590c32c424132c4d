"""The use of a world's programs: seconds of CPU by party, commits and rows of the trail, and bytes on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

import psutil
from sqlalchemy import NullPool, create_engine, text

from benchmarks.replicas.served_model import ServedModel
from benchmarks.replicas.world import World

T = TypeVar("T")

PARTIES = ("client", "nginx", "model", "servers", "database")

_ROWS_IN_PLACE = ("trail_head", "commit_marks", "owners", "key_windows")
"""Tables that do not grow: their few rows are changed again and again."""
_DISK = text(
    "select sum(pg_total_relation_size(oid)) from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace "
    "and not relname = any(:without)"
)
_COMMITS = text("select coalesce(sum(mark), 0) from commit_marks")
_ROWS = text("select position from trail_head")
_WAL = text("select pg_current_wal_lsn() - '0/0'")
_SCHEDULED_CLOCK = 2
"""Linux's CPUCLOCK_SCHED: the clock of all threads of a process, in nanoseconds. Psutil's figures have steps of 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Use of resources between two moments."""

    seconds: float
    cpu: Mapping[str, float]
    """Seconds of CPU by party."""
    machine: float
    """Seconds of CPU of all programs of the machine."""
    commits: int
    """Transactions of the servers that write."""
    rows: int
    """Rows of the trail."""
    disk: int
    """Bytes of the tables that grow, with their indexes."""
    wal: int
    """Bytes of PostgreSQL's log."""

    def __add__(self, other: Use) -> Use:
        cpu = {party: seconds + other.cpu[party] for party, seconds in self.cpu.items()}
        names = [field.name for field in fields(self) if field.name != "cpu"]
        return Use(cpu=cpu, **{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def other_cores(self) -> float:
        """Returns the cores that programs outside of the world used."""
        return max(0.0, (self.machine - sum(self.cpu.values())) / self.seconds)


def cpu_of(world: World, model: ServedModel) -> Mapping[str, float]:
    """Returns the seconds of CPU by party. The client is this process."""
    pids = {**world.pids, "model": [model.pid]}
    used = {party: sum(tree_seconds(pid) for pid in pids[party]) for party in pids}
    return {"client": time.process_time(), **used}


async def used_by(world: World, model: ServedModel, action: Awaitable[T]) -> tuple[Use, T]:
    """Returns what the programs of a world use while an action is awaited, and its result. The queries that ask PostgreSQL are
    not counted."""
    before = await asyncio.to_thread(_counts, world)
    began, cpu, machine = time.monotonic(), cpu_of(world, model), _machine_seconds()
    result = await action
    ended, after_cpu, after_machine = time.monotonic(), cpu_of(world, model), _machine_seconds()
    after = await asyncio.to_thread(_counts, world)
    return Use(
        seconds=ended - began,
        cpu={party: seconds - cpu[party] for party, seconds in after_cpu.items()},
        machine=after_machine - machine,
        **{name: after[name] - before[name] for name in after},
    ), result


def _counts(world: World) -> Mapping[str, int]:
    """Returns the commits and rows of the database until now, and the bytes of its files and of its log. There is no checkpoint,
    which would change none of them: files grow as rows are written, and the log would be filled with whole pages afterwards."""
    engine = create_engine(world.postgres.url, poolclass=NullPool).execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        return {
            "commits": int(connection.execute(_COMMITS).scalar_one()),
            "rows": int(connection.execute(_ROWS).scalar_one()),
            "disk": int(connection.execute(_DISK, {"without": list(_ROWS_IN_PLACE)}).scalar_one()),
            "wal": int(connection.execute(_WAL).scalar_one()),
        }


def _machine_seconds() -> float:
    """Returns the seconds of CPU of all programs of the machine."""
    times = psutil.cpu_times()
    return float(sum(times[:7]) - times.idle - times.iowait)


def tree_seconds(pid: int) -> float:
    """Returns the seconds of a process, its children that live, and those that ended and were waited for."""
    process = psutil.Process(pid)
    ended = process.cpu_times()
    return sum(map(_seconds, [pid, *(child.pid for child in process.children(recursive=True))])) + float(
        ended.children_user + ended.children_system
    )


def _seconds(pid: int) -> float:
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULED_CLOCK)
    except OSError:  # it ended meanwhile
        return 0.0
