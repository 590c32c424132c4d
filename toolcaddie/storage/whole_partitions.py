"""Removes whole partitions of the trail, whose rows are all old: PostgreSQL gives their files back at once.

First the rows are read and checked against the chain, while others write. Then the rows of the runs go from the lists, in
small steps. Last, in one short transaction, the partition is emptied, the few rows that must stay are put back, and the
removal is recorded. A partition in which much must stay is left to the removal row by row.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.storage.chain import Chain, read_head
from toolcaddie.storage.old_partitions import MOST_STAYING, OldPartition, closed_partitions, with_staying
from toolcaddie.storage.partitions import is_free, merge_first
from toolcaddie.storage.prunings import NOT_ENDED, Pruned, Step, record_pruning
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.removal import add_gaps, checked, gaps_near, gaps_of, joined
from toolcaddie.storage.seals import Gap, Sealer
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.replacing import replace

_PRUNING = 0x746F6F6C70617274
"""Key of the advisory lock of the process that removes partitions."""
_ROWS_AT_ONCE = 1_000
_IDS_AT_ONCE = 20_000
"""Number of row ids whose runs leave the lists in one transaction."""
_ATTEMPTS = 20
"""Number of attempts to find a moment in which nobody reads the partition."""
_WAIT = "50ms"
"""Time for which the writers of the trail may have to wait for the readers of an old partition."""
_AGAIN = 0.25
"""Seconds between two attempts."""

_PAGE = "SELECT id, run_id, seq, at, kind, data, link FROM {table} WHERE id > :after ORDER BY id LIMIT :most"
_UNLIST = """
WITH begun AS (
    SELECT run_id, at FROM {table} WHERE id >= :first AND id < :until AND kind = 'run_started' AND run_id <> ALL(:staying)
), unlisted AS (
    DELETE FROM runs USING begun WHERE runs.run_id = begun.run_id AND runs.started = begun.at
        AND runs.status <> ALL(:open) AND runs.owner IS NULL RETURNING runs.run_id
), tools AS (
    DELETE FROM run_tools USING unlisted WHERE run_tools.run_id = unlisted.run_id
)
SELECT count(*) FROM unlisted
"""


class _Findings(Struct, frozen=True, kw_only=True):
    """What the check of a partition found so far."""

    last: int
    """Id of the last row that was checked."""
    rows: int = 0
    """Number of rows that can be removed."""
    gaps: Sequence[Gap] = ()
    """The gaps that they leave."""
    near: Sequence[Gap] = ()
    """The gaps that earlier removals left among them and beside them."""


class WholePartitions:
    """Removes the partitions of a PostgreSQL database; on SQLite there are none."""

    def __init__(self, engine: Engine, writer: Writer, reader: Reader, chain: Chain) -> None:
        self._engine = engine
        self._writer = writer
        self._reader = reader
        self._chain = chain

    async def remove(self, step: Step) -> tuple[Pruned, Step]:
        """Removes the partitions whose rows are all old. Returns the counts and the progress, from which the removal row by row
        continues: it leaves runs that a later pruning can remove with their whole partition. Raises `ChainError` if a row was
        changed, and then removes nothing of its partition."""
        total = Pruned()
        if self._engine.dialect.name != "postgresql":
            return total, step
        async with self._alone() as is_alone:
            for part in await self._reader.snapshot(closed_partitions):
                if part.until >= step.cutoff:
                    if part.until - part.since <= step.late:
                        step = replace(step, before=min(step.before, part.since))
                    break
                if is_alone and (judged := await self._reader.snapshot(partial(with_staying, part=part, step=step))):
                    removed, step = await self._give_up(judged, step)
                    total += removed
                    if not removed.events and step.late:  # the next pruning finds it unused
                        step = replace(step, before=min(step.before, part.since))
                        break
            if is_alone:
                await outcome(self._writer.submit(partial(merge_first, most=MOST_STAYING)))
        return total, step

    async def _give_up(self, part: OldPartition, step: Step) -> tuple[Pruned, Step]:
        """Checks and removes a partition. Returns no events if others read it for long."""
        findings = _Findings(last=part.first - 1)
        while findings.last < part.last:
            work = partial(_check, part=part, findings=findings, sealer=self._chain.sealer)
            findings = await self._reader.snapshot(work)
            await asyncio.sleep(step.pause)
        total = Pruned()
        if not await self._is_unused(part):
            return total, step
        for first in range(part.first, part.last + 1, _IDS_AT_ONCE):
            work_of_lists = partial(_unlist, part=part, step=step, first=first)
            unlisted, step = await outcome(self._writer.submit(work_of_lists))
            total += Pruned(runs=unlisted)
            await asyncio.sleep(step.pause)
        for _ in range(_ATTEMPTS):
            empty = partial(_empty, part=part, findings=findings, chain=self._chain, step=step)
            is_empty, step = await outcome(self._writer.submit(empty))
            if is_empty:
                return total + Pruned(events=findings.rows), step
            await asyncio.sleep(_AGAIN)
        return total, step

    async def _is_unused(self, part: OldPartition) -> bool:
        """Waits until nobody reads a partition. Returns False if somebody does for long, such as a check of the trail."""
        for _ in range(_ATTEMPTS):
            work = partial(is_free, mode="ACCESS EXCLUSIVE", tables=(part.table,), wait=_WAIT)
            if await outcome(self._writer.submit(work)):
                return True
            await asyncio.sleep(_AGAIN)
        return False

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Yields True if no other process removes partitions meanwhile."""
        connection = await asyncio.to_thread(_locked, self._engine)
        try:
            yield connection is not None
        finally:
            if connection is not None:
                await asyncio.to_thread(_close, connection)


def _locked(engine: Engine) -> Connection | None:
    """Returns a connection that holds the lock of the removal, or None: another process has it, or the server is away."""
    try:
        connection = engine.connect()
        if connection.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _PRUNING}).scalar():
            return connection
        connection.close()
    except SQLAlchemyError:
        pass  # the removal row by row waits for the server, and reports it
    return None


def _close(connection: Connection) -> None:
    with suppress(SQLAlchemyError):  # it was lost, and the lock with it
        connection.close()


def _check(connection: Connection, *, part: OldPartition, findings: _Findings, sealer: Sealer) -> _Findings:
    """Checks the next rows of a partition. Raises `ChainError` if one of them was changed."""
    statement = text(_PAGE.format(table=part.table))
    rows = connection.execute(statement, {"after": findings.last, "most": _ROWS_AT_ONCE}).all()
    if not rows:
        return replace(findings, last=part.last)
    head, _ = read_head(connection)
    near = {gap.first: gap for gap in (*findings.near, *checked(connection, head, rows, sealer))}
    staying = set(part.staying)
    removed = [row for row in rows if row.run_id not in staying]
    gaps = joined([*findings.gaps, *gaps_of(removed, head)])
    return _Findings(last=rows[-1].id, rows=findings.rows + len(removed), gaps=gaps, near=list(near.values()))


def _unlist(connection: Connection, *, part: OldPartition, step: Step, first: int) -> tuple[int, Step]:
    """Removes runs of a partition from the lists, and records it. Returns their number."""
    values = {
        "first": first,
        "until": first + _IDS_AT_ONCE,
        "staying": list(part.staying),
        "open": list(NOT_ENDED),
    }
    number = connection.execute(text(_UNLIST.format(table=part.table)), values).scalar_one()
    return number, _recorded(connection, step, Pruned(runs=number), part)


def _empty(
    connection: Connection, *, part: OldPartition, findings: _Findings, chain: Chain, step: Step
) -> tuple[bool, Step]:
    """Empties a partition but for the rows that stay, and records the gaps. Returns False if it did not, because others read the
    partition, or removed rows of it since the check."""
    head, table = chain.lock(connection), part.table
    first = max(part.first, head.first)
    near = gaps_near(connection, head, (first, part.last), chain.sealer) if first <= part.last else ()
    is_same = list(near) == sorted(findings.near, key=lambda gap: gap.first)
    if not is_same or not is_free(connection, mode="ACCESS EXCLUSIVE", tables=(table,), wait=_WAIT):
        return False, step
    staying = {"staying": list(part.staying)}
    copy = f"CREATE TABLE {table}_staying AS SELECT * FROM {table} WHERE run_id = ANY(:staying)"
    connection.execute(text(copy), staying)
    for statement in (
        f"TRUNCATE {table}",
        f"INSERT INTO {table} SELECT * FROM {table}_staying",
        f"DROP TABLE {table}_staying",
    ):
        connection.exec_driver_sql(statement)
    add_gaps(connection, head, findings.gaps, near, chain.sealer)
    return True, _recorded(connection, step, Pruned(events=findings.rows), part)


def _recorded(connection: Connection, step: Step, done: Pruned, part: OldPartition) -> Step:
    return replace(step, record=record_pruning(connection, step, done, part.first, part.last))
