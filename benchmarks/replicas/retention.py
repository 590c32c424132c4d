"""The removal of old runs while others are written: python -m benchmarks.replicas.retention

    python -m benchmarks.replicas.retention --rows 3000000 --rate 50 --partition 250000

PostgreSQL is filled with runs of 13 rows in a real chain, of which the oldest third is older than 90 days. Then `toolcaddie
db prune` removes that third, in a process of its own, while this process writes runs at a steady rate. Printed are the
seconds and the CPU of the removal, the bytes that PostgreSQL gave back to the disk, the latency of the writes before and
meanwhile, and the check of the trail afterwards. The exit code is 1 if the check found a change.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, NullPool, create_engine, text

from benchmarks.replicas.account import tree_seconds
from benchmarks.replicas.postgres import Postgres
from benchmarks.replicas.world import free_port
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.chain import read_head, write_head
from toolcaddie.storage.database import Database
from toolcaddie.storage.partitions import ROWS as PARTITION
from toolcaddie.storage.partitions import Room
from toolcaddie.storage.seals import Sealer
from toolcaddie.util.replacing import replace

ROWS = 13
"""Rows of a run."""
_DAY = 86_400.0
_KEEP = 90 * _DAY
_COLUMNS = "id, run_id, seq, at, kind, data, link"
_RUNS = "run_id, started, message, status, principal, preset, calls, rounds, seconds, tenant"
_DATA = '{"text": "' + "x" * 600 + '"}'
"""About the size of a row of a run."""
_AT_ONCE = 1_000
"""Runs of a transaction."""
_QUIET = 10.0
"""Seconds of writing before the removal, for comparison."""
_BYTES = text(
    "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class where relkind = 'r' "
    "and (relname like 'events%' or relname in ('runs', 'run_tools'))"
)


async def run(rows: int, rate: float, partition: int) -> int:
    postgres = Postgres(free_port())
    try:
        postgres.start()
        async with Database(postgres.url, partition_rows=partition) as database:
            _say("fill", _timed(lambda: _fill(postgres.url, rows, partition)), f"{rows:,} rows")
            await database.leases.own()
            _show("quiet", await _written_until(database, rate, asyncio.create_task(asyncio.sleep(_QUIET))))
            size, cpu = _size(postgres.url), tree_seconds(postgres.pid)
            began = time.monotonic()
            removal = asyncio.create_task(_removal(postgres.url))
            times = await _written_until(database, rate, removal)
            seconds, cpu = time.monotonic() - began, tree_seconds(postgres.pid) - cpu
            said, own = removal.result()
            _say("removal", seconds, said)
            print(f"{'':10} CPU: PostgreSQL {cpu:.1f} s with the writes, the command {own:.1f} s")
            print(f"{'':10} bytes: {size / 1e6:,.0f} MB before, {_size(postgres.url) / 1e6:,.0f} MB afterwards")
            _show("meanwhile", times)
            began = time.monotonic()
            report = await database.audits.verify()
            _say(
                "check",
                time.monotonic() - began,
                f"{report.checked:,} rows, {report.pruned:,} removed, {report.changes_total} changes",
            )
            return int(bool(report.changes_total))
    finally:
        postgres.remove()


def _timed(action: Callable[[], None]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _say(name: str, seconds: float, what: str) -> None:
    print(f"{name:10} {seconds:6.1f} s, {what}", flush=True)


def _show(name: str, times: Sequence[float]) -> None:
    ordered = sorted(times)
    p99 = ordered[int(len(ordered) * 0.99)]
    print(
        f"{name:10} writes: {len(times):,}, p50 {statistics.median(times) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
        f"max {ordered[-1] * 1e3:.1f} ms",
        flush=True,
    )


def _size(url: str) -> int:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return int(connection.execute(_BYTES).scalar_one())


async def _removal(url: str) -> tuple[str, float]:
    """Removes old runs by the command. Returns what it says and its seconds of CPU."""
    code = "from toolcaddie.doors.cli import main; main()"
    with tempfile.TemporaryDirectory() as home:
        before = _ended_children()
        words = ("db", "prune", "--older-than", "90d", "--database-url", url)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, *words, cwd=home, stdout=subprocess.PIPE
        )
        said, _ = await process.communicate()
        return said.decode().strip(), _ended_children() - before


def _ended_children() -> float:
    """Returns the seconds of CPU of all processes that this one has started and that have ended: not PostgreSQL."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _written_until(database: Database, rate: float, end: asyncio.Task[Any]) -> Sequence[float]:
    """Writes runs at a rate until a task ends. Returns the seconds that each was waited for."""
    times: list[float] = []
    began = time.monotonic()
    while not end.done():
        run_id = f"new_{began}_{len(times)}"
        for seq in range(1, ROWS + 1):
            database.events.append(_record(run_id, seq))
        asked = time.monotonic()
        await database.events.flush()
        times.append(time.monotonic() - asked)
        await asyncio.sleep(max(0.0, began + len(times) / rate - time.monotonic()))
    return times


def _record(run_id: str, seq: int) -> EventRecord:
    data: dict[str, Any] = {"text": "x" * 600}
    if seq == 1:
        data = {"message": "hello", "principal": {"id": "ann"}, "preset": "default"}
    if seq == ROWS:
        data = {"status": "completed", "calls": 2, "rounds": 3, "seconds": 1.5}
    return EventRecord(run_id=run_id, seq=seq, at=time.time(), kind=_kind(seq), data=data)


def _kind(seq: int) -> str:
    return {1: "run_started", ROWS: "run_finished"}.get(seq, "model_asked")


def _fill(url: str, rows: int, partition: int) -> None:
    """Adds runs of which the first third is older than 90 days, with the chain that the journal would make."""
    sealer, count = Sealer(), rows // ROWS
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        Room(partition).reach(connection, rows)
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, count))
        with engine.begin() as connection:
            _add(connection, sealer, [(number, _age(number, count)) for number in numbers])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def _age(number: int, count: int) -> float:
    return time.time() - (2 * _KEEP if number < count // 3 else _KEEP / 2) + number * 1e-3


def _add(connection: Connection, sealer: Sealer, runs: Sequence[tuple[int, float]]) -> None:
    head, _ = read_head(connection, lock=True)
    position, link = head.position, head.link

    def events() -> Iterator[tuple[Any, ...]]:
        nonlocal position, link
        for number, at in runs:
            for seq in range(1, ROWS + 1):
                position += 1
                row = (position, f"run_{number * 7919 % 1_000_003:032x}_{number}", seq, at, _kind(seq), _DATA)
                link = sealer.link(link, row)
                yield (*row, link)

    _copy(connection, f"events ({_COLUMNS})", events())
    _copy(
        connection,
        f"runs ({_RUNS})",
        (
            (f"run_{n * 7919 % 1_000_003:032x}_{n}", at, "hello", "completed", "ann", "default", 2, 3, 1.5, "default")
            for n, at in runs
        ),
    )
    write_head(connection, replace(head, position=position, link=link), sealer)


def _copy(connection: Connection, target: str, rows: Iterator[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rate", type=float, default=50.0, help="runs written a second")
    parser.add_argument("--partition", type=int, default=PARTITION, help="rows of a partition")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(run(arguments.rows, arguments.rate, arguments.partition)))


if __name__ == "__main__":
    main()
