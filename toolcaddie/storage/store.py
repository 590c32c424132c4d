"""The store on a database: documents under (kind, key), logs, and the lease of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Update, bindparam, delete, func, insert, or_, select, update

from toolcaddie.core.storage import Document, DocumentPage, LogEntry
from toolcaddie.storage.leases import DatabaseLeases
from toolcaddie.storage.names import after_prefix, check_kind, escaped, original_key, stored_key
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import documents, log_entries
from toolcaddie.storage.upsert import insert_absent, upsert
from toolcaddie.storage.writer import Writer, outcome

T = TypeVar("T")

_SWEEP_SECONDS = 60.0
"""Shortest time in seconds between two removals of expired documents."""
_AT_ONCE = 500
"""Number of keys in one statement, below the limit of parameters of every database (older SQLite: 999)."""

# The statements are built once, because building one costs more than running it.
_IS_LIVE = or_(documents.c.expires.is_(None), documents.c.expires > bindparam("now"))
_LIVE = select(documents.c.key, documents.c.value).where(documents.c.kind == bindparam("of_kind"), _IS_LIVE)
_ONE = _LIVE.where(documents.c.key == bindparam("of_key"))
_MANY = _LIVE.where(documents.c.key.in_(bindparam("keys", expanding=True)))
_EXCHANGE: Update = (
    update(documents)
    .where(
        documents.c.kind == bindparam("of_kind"),
        documents.c.key == bindparam("of_key"),
        documents.c.value == bindparam("expected"),
        _IS_LIVE,
    )
    .values(value=bindparam("new_value"), expires=bindparam("new_expires"))
)
_LAST_POSITION = select(func.max(log_entries.c.position)).where(log_entries.c.stream == bindparam("stream"))
_ENTRIES = (
    select(log_entries.c.position, log_entries.c.value)
    .where(log_entries.c.stream == bindparam("stream"), log_entries.c.position > bindparam("after"))
    .order_by(log_entries.c.position)
    .limit(bindparam("most"))
)
# Lets one transaction at a time append to a stream. So a position is assigned only after the previous one is committed or
# rolled back, and no reader sees a later entry before an earlier one. SQLite has only one writer in any case.
_LOCK_STREAM = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("stream"), 0)))


class DatabaseStore:
    """Implements `ports.Store` on a database. Expired documents are never returned; writes remove them once a minute.

    `clock` returns seconds since the epoch. The moment a document expires is stored and read by other processes and after
    a restart, so only a wall clock can measure it; if that clock is set back, documents live that much longer. `steady`
    returns seconds that never go back and times the sweeps.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        leases: DatabaseLeases,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases = leases
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._steady = steady
        self._swept_at: float | None = None

    async def get(self, kind: str, key: str) -> bytes | None:
        rows = await self._reader.all(_ONE, of_kind=kind, of_key=stored_key(key), now=self._clock())
        return bytes(rows[0].value) if rows else None

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that have a live document."""
        names, now = list(dict.fromkeys(map(stored_key, keys))), self._clock()
        values: dict[str, bytes] = {}
        for start in range(0, len(names), _AT_ONCE):
            rows = await self._reader.all(_MANY, of_kind=kind, keys=names[start : start + _AT_ONCE], now=now)
            values.update((original_key(row.key), bytes(row.value)) for row in rows)
        return values

    async def put(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        urgent: bool = True,
        owner: int | None = None,
    ) -> None:
        row = self._row(kind, key, value, ttl)
        done = self._submit(lambda connection: upsert(connection, documents, row), owner, urgent=urgent)
        self._sweep()
        await outcome(done)

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        """Writes several documents in one transaction: all or none."""
        # Sorted, because two processes that lock the same rows in different orders would wait for each other.
        rows = [self._row(kind, key, values[key], ttl) for key in sorted(values)]
        if not rows:
            return
        done = self._writer.submit(lambda connection: upsert(connection, documents, rows))
        self._sweep()
        await outcome(done)

    async def compare_and_set(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        expected: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        """Writes a document only if its present value is `expected` (None: there must be no live document). Returns True if it
        was written."""
        now, row = self._clock(), self._row(kind, key, value, ttl)

        # A single statement, because another process could write between a read and a write.
        def exchange(connection: Connection) -> bool:
            if expected is None:
                return insert_absent(connection, documents, row, now=now)
            changes = {
                "of_kind": kind,
                "of_key": row["key"],
                "expected": expected,
                "now": now,
                "new_value": value,
                "new_expires": row["expires"],
            }
            return connection.execute(_EXCHANGE, changes).rowcount > 0

        return await outcome(self._submit(exchange, owner))

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        """Deletes a document. Returns True if there was a live one."""
        is_document = (documents.c.kind == kind) & (documents.c.key == stored_key(key))
        expired = documents.c.expires <= self._clock()

        def remove(connection: Connection) -> bool:
            connection.execute(delete(documents).where(is_document, expired))
            return connection.execute(delete(documents).where(is_document)).rowcount > 0

        return await outcome(self._submit(remove, owner))

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        """Returns a page of the documents of a kind in the order of their keys. `cursor`: the last key of the previous page."""
        first = stored_key(prefix)
        behind = after_prefix(first)
        limits = {"first": first, "most": limit + 1}
        if behind is not None:
            limits["behind"] = behind
        if cursor is not None:
            limits["cursor"] = escaped(cursor)
        statement = _scan(bounded=behind is not None, continues=cursor is not None)
        rows = await self._reader.all(statement, of_kind=kind, now=self._clock(), **limits)
        page = [Document(key=original_key(row.key), value=bytes(row.value)) for row in rows[:limit]]
        return DocumentPage(documents=page, cursor=page[-1].key if len(rows) > limit else None)

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        """Appends entries to a stream, and returns the position of the last one."""
        name = stored_key(stream)

        def add(connection: Connection) -> int:
            if connection.dialect.name == "postgresql":
                connection.execute(_LOCK_STREAM, {"stream": name})
            last = int(connection.execute(_LAST_POSITION, {"stream": name}).scalar() or 0)
            rows = [{"stream": name, "position": n, "value": value} for n, value in enumerate(values, start=last + 1)]
            if rows:
                connection.execute(insert(log_entries), rows)
            return last + len(rows)

        return await outcome(self._submit(add, owner))

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        rows = await self._reader.all(_ENTRIES, stream=stored_key(stream), after=after, most=limit)
        return [LogEntry(position=row.position, value=bytes(row.value)) for row in rows]

    async def lease(self) -> int:
        return await self._leases.own()

    async def holds(self, number: int) -> bool:
        return await self._leases.holds(number)

    def _row(self, kind: str, key: str, value: bytes, ttl: float | None) -> dict[str, Any]:
        check_kind(kind)
        expires = None if ttl is None else self._clock() + ttl
        return {"kind": kind, "key": stored_key(key), "value": value, "expires": expires}

    def _submit(self, work: Callable[[Connection], T], owner: int | None, *, urgent: bool = True) -> Future[T]:
        """Submits work. With an `owner`, the work is done only if that owner still holds its lease."""
        if owner is None:
            return self._writer.submit(work, urgent=urgent)
        number = owner

        def fenced(connection: Connection) -> T:
            self._leases.require(connection, number)
            return work(connection)

        return self._writer.submit(fenced, urgent=urgent)

    def _sweep(self) -> None:
        steady, now = self._steady(), self._clock()
        if self._swept_at is not None and steady - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = steady
        self._writer.submit(lambda connection: _remove_expired(connection, now), urgent=False)


@cache
def _scan(*, bounded: bool, continues: bool) -> Select[Any]:
    """Returns the statement of a scan. `bounded`: with an upper end of the keys; `continues`: only keys after a cursor."""
    scan = _LIVE.where(documents.c.key >= bindparam("first"))
    if bounded:
        scan = scan.where(documents.c.key < bindparam("behind"))
    if continues:
        scan = scan.where(documents.c.key > bindparam("cursor"))
    return scan.order_by(documents.c.key).limit(bindparam("most"))


def _remove_expired(connection: Connection, now: float) -> None:
    connection.execute(delete(documents).where(documents.c.expires <= now))
