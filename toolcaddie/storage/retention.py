"""Prunes the database: removes old runs that have ended, each with all its rows, and records what was removed.

A pruning works in small batches, each a transaction of its own, so that active runs wait for the lock a few milliseconds at
most. A batch and its record are committed together: if the process dies between two batches, the record is still correct.
On PostgreSQL, partitions of the trail are removed whole before, and only what is left of them row by row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select

from toolcaddie.storage.chain import Chain
from toolcaddie.storage.prunings import RECORDED, Pruned, Pruning, Step, ended_runs, record_pruning
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.removal import record_removal
from toolcaddie.storage.tables import documents, events, prunings, run_tools, runs
from toolcaddie.storage.whole_partitions import WholePartitions
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.replacing import replace

BATCH = 20
"""Number of runs removed in one transaction. They have about 500 rows, whose removal takes a few milliseconds."""

_DOCUMENTS = 500
"""Largest number of expired documents removed in one transaction."""
_FREED_PAGES = 400
"""Largest number of pages of an SQLite file returned to the disk after a batch; a batch frees fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counts and sizes of a database's contents."""

    runs: Mapping[str, int]
    """Number of runs by status."""
    oldest_run: float | None
    """Start of the oldest run, in seconds since the epoch; None: there are no runs."""
    events: int
    documents: Mapping[str, int]
    """Number of documents by kind."""
    expired_documents: int
    prunings: int
    size: int
    """Size in bytes on disk; for SQLite, without the write-ahead log."""
    free: int | None
    """Unused bytes within `size`, which new rows fill first; None: the database does not report them."""


class Retention:
    """Prunes a database and counts its contents. `clock` returns seconds since the epoch, as in the rows."""

    def __init__(
        self, writer: Writer, reader: Reader, chain: Chain, engine: Engine, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._chain = chain
        self._writer = writer
        self._reader = reader
        self._whole = WholePartitions(engine, writer, reader, chain)
        self._clock = clock

    async def prune(
        self, older_than: float, *, by: str, batch: int = BATCH, pause: float = 0.0, late: float = 0.0
    ) -> Pruned:
        """Removes runs that ended more than `older_than` seconds ago, and expired documents.

        Runs that are running, or waiting for an answer that may still come, stay whatever their age. `by` is stored in the
        record. `pause`: seconds between two batches, for other writers. `late`: seconds for which runs may stay longer, if
        their whole partition of the trail is removed then. Raises `StorageError`; what was removed before the error is on
        record. Raises `ChainError`, and removes nothing of a batch, if a row of the batch was changed: without it nobody
        could notice.
        """
        now = self._clock()
        cutoff = now - older_than
        step = Step(at=now, by=by, cutoff=cutoff, batch=batch, pause=pause, late=late, before=cutoff)
        total, step = await self._whole.remove(step)
        while True:
            done, step = await outcome(self._writer.submit(partial(_prune_some, chain=self._chain, step=step)))
            total += done
            if done.runs < batch and done.documents < _DOCUMENTS:
                return total
            await asyncio.sleep(pause)

    async def prunable(self, older_than: float) -> Pruned:
        """Counts what `prune` would remove now."""
        now = self._clock()
        ended = ended_runs(now - older_than, now).subquery()
        (counts,) = await self._reader.all(
            select(
                _count(ended, "runs"),
                _count(events.join(ended, events.c.run_id == ended.c.run_id), "events"),
                _count(documents, "documents", documents.c.expires <= now),
            )
        )
        return Pruned(**counts._mapping)

    async def prunings(self) -> Sequence[Pruning]:
        """Returns the records of all prunings, oldest first."""
        rows = await self._reader.all(select(*(prunings.c[name] for name in RECORDED)).order_by(prunings.c.id))
        return [Pruning(**row._mapping) for row in rows]

    async def size(self) -> tuple[int, int | None]:
        """Returns the size of the database in bytes, and its unused bytes (None: unknown). It counts no rows."""
        return await outcome(self._writer.submit(_size))

    async def statistics(self) -> Statistics:
        """Counts the contents of the database now."""
        by_status = await self._reader.all(select(runs.c.status, func.count().label("runs")).group_by(runs.c.status))
        by_kind = await self._reader.all(
            select(documents.c.kind, func.count().label("documents")).group_by(documents.c.kind)
        )
        (counts,) = await self._reader.all(
            select(
                select(func.min(runs.c.started)).scalar_subquery().label("oldest_run"),
                _count(events, "events"),
                _count(documents, "expired_documents", documents.c.expires <= self._clock()),
                _count(prunings, "prunings"),
            )
        )
        size, free = await self.size()
        return Statistics(
            runs={row.status: row.runs for row in by_status},
            documents={row.kind: row.documents for row in by_kind},
            size=size,
            free=free,
            **counts._mapping,
        )


def _count(source: Any, name: str, *where: Any) -> Any:
    return select(func.count()).select_from(source).where(*where).scalar_subquery().label(name)


_ROWS = select(events).order_by(events.c.id)


def _prune_some(connection: Connection, *, chain: Chain, step: Step) -> tuple[Pruned, Step]:
    """Removes the next batch of ended runs and some expired documents, in one transaction. Returns the counts, and the progress
    from which the next batch continues."""
    expired = _remove_expired(connection, step.at)
    head = chain.lock(connection)  # no other process prunes the same rows meanwhile
    statement = ended_runs(step.cutoff, step.at, few=True).where(runs.c.started < step.before)
    statement = statement.order_by(runs.c.started).limit(step.batch)
    if step.after is not None:
        statement = statement.where(runs.c.started >= step.after)
    ended = connection.execute(statement).all()
    if not ended:
        _give_back(connection, expired)
        return Pruned(documents=expired), step
    run_ids = [row.run_id for row in ended]
    is_theirs = events.c.run_id.in_(run_ids)
    rows = connection.execute(_ROWS.where(is_theirs)).all()
    record_removal(connection, head, rows, chain.sealer)
    connection.execute(delete(events).where(is_theirs))
    connection.execute(delete(run_tools).where(run_tools.c.run_id.in_(run_ids)))
    connection.execute(delete(runs).where(runs.c.run_id.in_(run_ids)))
    done = Pruned(runs=len(run_ids), events=len(rows), documents=expired)
    first, last = (rows[0].id, rows[-1].id) if rows else (0, 0)
    step = replace(step, after=ended[-1].started, record=record_pruning(connection, step, done, first, last))
    _give_back(connection, len(run_ids))
    return done, step


def _remove_expired(connection: Connection, now: float) -> int:
    statement = select(documents.c.kind, documents.c.key).where(documents.c.expires <= now).limit(_DOCUMENTS)
    expired = connection.execute(statement).all()
    for row in expired:
        connection.execute(delete(documents).where(documents.c.kind == row.kind, documents.c.key == row.key))
    return len(expired)


def _give_back(connection: Connection, removed: int) -> None:
    """Returns free pages of an SQLite file with auto-vacuum to the disk; other databases keep the space for new rows."""
    if removed and connection.dialect.name == "sqlite":
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        for _ in range(
            min(free, _FREED_PAGES)
        ):  # one page for each statement, because the driver executes only its first step
            connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")


def _size(connection: Connection) -> tuple[int, int | None]:
    """Returns the size of the database in bytes, and its unused bytes (None: unknown)."""
    if connection.dialect.name != "sqlite":
        return int(connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one()), None
    pages, free, page = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages * page, free * page
