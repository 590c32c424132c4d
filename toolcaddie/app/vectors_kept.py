"""The database of vectors, and a store for commands that keep no database open: each call opens the database and closes it again,
because such a command needs the vectors of its catalog once and then exits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from toolcaddie.app.auditing import audit_key
from toolcaddie.app.settings import Settings
from toolcaddie.core.storage import DocumentPage, LogEntry
from toolcaddie.ports import VectorIndex
from toolcaddie.storage.database import Database
from toolcaddie.storage.engines import parse_url
from toolcaddie.storage.vector_index import PostgresVectors


def vector_index_of(settings: Settings) -> VectorIndex | None:
    """Returns what searches the vectors of large catalogs; it is opened at the first one. None: the database is no PostgreSQL."""
    is_postgresql = parse_url(settings.database_url).get_backend_name() == "postgresql"
    return PostgresVectors(settings.database_url) if is_postgresql else None


class StoreOnDemand:
    """Stores documents in the database of the settings, which each call opens and closes. So a lease ends with the call that
    takes it. It implements `ports.Store`. Raises `ConfigError` if the key of the trail is missing."""

    def __init__(self, settings: Settings) -> None:
        # With the key, because the first process of a database seals its trail.
        self._database = partial(Database, settings.database_url, audit_key=audit_key(settings.audit))

    async def get(self, kind: str, key: str) -> bytes | None:
        async with self._database() as database:
            return await database.store.get(kind, key)

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        async with self._database() as database:
            return await database.store.get_many(kind, keys)

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
        async with self._database() as database:
            await database.store.put(kind, key, value, ttl=ttl, urgent=urgent, owner=owner)

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        async with self._database() as database:
            await database.store.put_many(kind, values, ttl=ttl)

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
        async with self._database() as database:
            return await database.store.compare_and_set(kind, key, value, expected=expected, ttl=ttl, owner=owner)

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        async with self._database() as database:
            return await database.store.delete(kind, key, owner=owner)

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        async with self._database() as database:
            return await database.store.scan(kind, prefix=prefix, cursor=cursor, limit=limit)

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        async with self._database() as database:
            return await database.store.append(stream, values, owner=owner)

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        async with self._database() as database:
            return await database.store.read(stream, after=after, limit=limit)

    async def lease(self) -> int:
        async with self._database() as database:
            return await database.store.lease()

    async def holds(self, number: int) -> bool:
        async with self._database() as database:
            return await database.store.holds(number)
