"""Small values under (kind, key), some of them for a while only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from sqlalchemy import Connection, bindparam, delete, or_, select

from toolcaddie.storage.leases import DatabaseLeases
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import documents
from toolcaddie.storage.upsert import upsert
from toolcaddie.storage.writer import Writer, outcome

T = TypeVar("T")

_SWEEP_SECONDS = 60.0
_AT_ONCE = 500
"""Keys of one statement: below every database's limit of parameters (older SQLite: 999)."""

# Built once: making a statement costs more than running it.
_LIVE = select(documents.c.key, documents.c.value).where(
    documents.c.kind == bindparam("kind"),
    or_(documents.c.expires.is_(None), documents.c.expires > bindparam("now")),
)
_ONE = _LIVE.where(documents.c.key == bindparam("key"))
_FOR_UPDATE = _ONE.with_for_update()
_MANY = _LIVE.where(documents.c.key.in_(bindparam("keys", expanding=True)))


class DocumentStore:
    """`ports.Documents` on the database. Expired values are never returned; a write now and then removes them.

    `clock` gives seconds since the epoch. The moment a value expires is stored and read by other processes and after a
    restart, so only a wall clock can measure it; where that clock is put back, values live as much longer. `steady` gives
    seconds that never go back and says when to sweep again.
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
        self.leases = leases
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._steady = steady
        self._swept: float | None = None

    async def get(self, kind: str, key: str) -> bytes | None:
        found = await self._reader.all(_ONE, kind=kind, key=key, now=self._clock())
        return bytes(found[0].value) if found else None

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        wanted, now = list(dict.fromkeys(keys)), self._clock()
        found: dict[str, bytes] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            rows = await self._reader.all(_MANY, kind=kind, keys=wanted[start : start + _AT_ONCE], now=now)
            found.update((row.key, bytes(row.value)) for row in rows)
        return found

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
        expires = None if ttl is None else self._clock() + ttl
        row = {"kind": kind, "key": key, "value": value, "expires": expires}
        done = self._submit(lambda connection: upsert(connection, documents, row), owner, urgent=urgent)
        self._sweep()
        await outcome(done)

    async def swap(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        before: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        now = self._clock()
        row = {"kind": kind, "key": key, "value": value, "expires": None if ttl is None else now + ttl}

        def swapped(connection: Connection) -> bool:
            there = connection.execute(_FOR_UPDATE, {"kind": kind, "key": key, "now": now}).first()
            if (None if there is None else bytes(there.value)) != before:
                return False
            upsert(connection, documents, row)
            return True

        return await outcome(self._submit(swapped, owner))

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        expires = None if ttl is None else self._clock() + ttl
        rows = [{"kind": kind, "key": key, "value": value, "expires": expires} for key, value in values.items()]
        if not rows:
            return
        done = self._writer.submit(lambda connection: upsert(connection, documents, rows))
        self._sweep()
        await outcome(done)

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        statement = delete(documents).where(documents.c.kind == kind, documents.c.key == key)
        return await outcome(self._submit(lambda connection: connection.execute(statement).rowcount > 0, owner))

    def _submit(self, work: Callable[[Connection], T], owner: int | None, *, urgent: bool = True) -> Future[T]:
        """Work that is done only while `owner` holds its lease, where one is named."""
        if owner is None:
            return self._writer.submit(work, urgent=urgent)
        number = owner

        def fenced(connection: Connection) -> T:
            self.leases.require(connection, number)
            return work(connection)

        return self._writer.submit(fenced, urgent=urgent)

    def _sweep(self) -> None:
        steady, now = self._steady(), self._clock()
        if self._swept is not None and steady - self._swept < _SWEEP_SECONDS:
            return
        self._swept = steady
        self._writer.submit(lambda connection: _remove_expired(connection, now), urgent=False)


def _remove_expired(connection: Connection, now: float) -> None:
    connection.execute(delete(documents).where(documents.c.expires <= now))
