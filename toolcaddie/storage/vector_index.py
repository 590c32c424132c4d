"""Vectors of tools in PostgreSQL: made once for all processes of a database, and searched there by a graph (HNSW) of the
extension `vector`."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np
from sqlalchemy import Connection, TextClause, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.ports.vectors import VectorSpace
from toolcaddie.storage.engines import BUSY_SECONDS, engine_of, parse_url
from toolcaddie.storage.reasons import reason_of
from toolcaddie.storage.vector_statements import (
    ADD,
    ADD_SPACE,
    BUILD,
    CLAIM,
    COUNT,
    EMPTY_SPACES,
    INDEX_STATE,
    MISSING,
    NEAREST,
    RELEASE,
    REMOVE,
    ROWS,
    SPACE,
    TOUCH,
)
from toolcaddie.storage.vector_tables import MOST_DIMENSIONS, Extension, made_tables, set_up

T = TypeVar("T")

_THREADS = 4
"""Number of queries at the same time."""
_HEAD = 4
"""Bytes before the numbers of a vector that the server sends: their count, and two that are unused."""
_GRAPH_BYTES = 400
"""Memory in bytes that a vector takes in a graph that is being built, beside its numbers."""
_BUILD_MEGABYTES = (64, 2_048)
"""Least and most memory for that: a graph that fits is built several times as fast."""


class PostgresVectors:
    """Implements `ports.VectorIndex`. Each method opens the database if `open` has not been called. Safe for many threads.

    Raises `ConfigError` for an unusable URL.
    """

    def __init__(self, url: str) -> None:
        # The vectors can be computed again, so no commit waits for the disk.
        self._engine = engine_of(parse_url(url), in_memory=False, busy=BUSY_SECONDS, durable=False)
        event.listen(self._engine, "connect", set_up)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolcaddie-vectors")
        self._opening = threading.Lock()
        self._extension: Extension | None = None
        self._numbers: dict[str, int] = {}

    async def open(self) -> None:
        if self._extension is None:
            await self._in_thread(self._make_tables)

    async def missing(self, space: VectorSpace, digests: Sequence[bytes]) -> frozenset[bytes]:
        def read(connection: Connection) -> frozenset[bytes]:
            values = {"digests": list(digests), "space": self._number(connection, space)}
            return frozenset(map(bytes, connection.execute(MISSING, values).scalars()))

        return await self._done(read) if digests else frozenset()

    async def add(self, space: VectorSpace, rows: Mapping[bytes, bytes]) -> None:
        def write(connection: Connection) -> None:
            # Sorted, because two processes that lock the same rows in different orders would wait for each other.
            ordered = sorted(rows.items())
            values = {
                "space": self._number(connection, space),
                "digests": [digest for digest, _ in ordered],
                "vectors": [_literal(row) for _, row in ordered],
            }
            connection.execute(self._statement(ADD), values)

        if rows:
            await self._done(write)

    async def claimed(self, space: VectorSpace, part: int, work: Callable[[], Awaitable[None]]) -> bool:
        number = await self._done(lambda connection: self._number(connection, space))
        key = {"key": _claim_key(f"{number}/{part}")}
        # A lock of the session: it ends with the work, with the process, and with the connection, whichever is first.
        connection = await self._in_thread(self._connection)
        try:
            if not await self._in_thread(lambda: connection.execute(CLAIM, key).scalar_one()):
                return False
            try:
                await work()
            finally:
                with suppress(StorageError):  # the connection was lost, and with it the lock
                    await self._in_thread(lambda: connection.execute(RELEASE, key))
            return True
        finally:
            await self._in_thread(connection.close)

    async def complete(self, space: VectorSpace) -> None:
        def build(connection: Connection) -> None:
            number = self._number(connection, space)
            name = _index_name(number)
            state = connection.execute(INDEX_STATE, {"name": name}).scalar()
            if state:
                return
            if state is False:  # a build that was interrupted leaves an index that nobody may use
                connection.execute(text(f"DROP INDEX {name}"))
            count = connection.execute(COUNT, {"space": number}).scalar_one()
            needed = count * (2 * space.dimensions + _GRAPH_BYTES) // 2**20
            least, most = _BUILD_MEGABYTES
            connection.execute(text(f"SET maintenance_work_mem = '{min(max(needed, least), most)}MB'"))
            connection.execute(text("SET statement_timeout = 0"))
            connection.execute(text("SET lock_timeout = 0"))  # it waits for the transactions of others, and blocks none
            try:
                connection.execute(self._statement(BUILD, name=name, number=number, dimensions=space.dimensions))
            finally:
                connection.invalidate()  # so that no later query has these settings

        await self._done(build)

    async def nearest(self, space: VectorSpace, query: bytes, count: int) -> Sequence[bytes]:
        def read(connection: Connection) -> Sequence[bytes]:
            number = self._number(connection, space)
            # Without parameters but the query, so that the planner knows the index of this space.
            statement = self._statement(NEAREST, number=number, dimensions=space.dimensions, count=count)
            return [bytes(digest) for digest in connection.execute(statement, {"query": _literal(query)}).scalars()]

        return await self._done(read)

    async def rows(self, space: VectorSpace, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        def read(connection: Connection) -> Mapping[bytes, bytes]:
            values = {"digests": list(digests), "space": self._number(connection, space)}
            return {bytes(row.digest): _halves(row.sent) for row in connection.execute(self._statement(ROWS), values)}

        return await self._done(read) if digests else {}

    async def touch(self, space: VectorSpace, digests: Sequence[bytes], *, day: int) -> None:
        def write(connection: Connection) -> None:
            values = {"space": self._number(connection, space), "digests": sorted(set(digests)), "day": day}
            connection.execute(TOUCH, values)

        if digests:
            await self._done(write)

    async def remove_unused(self, *, before: int) -> int:
        def remove(connection: Connection) -> int:
            count: int = connection.execute(REMOVE, {"before": before}).scalar_one()
            for number in connection.execute(EMPTY_SPACES).scalars() if count else ():
                connection.execute(text(f"DROP INDEX CONCURRENTLY IF EXISTS {_index_name(number)}"))
            return count

        return await self._done(remove)

    async def close(self) -> None:
        self._threads.shutdown()
        await asyncio.to_thread(self._engine.dispose)

    def _number(self, connection: Connection, space: VectorSpace) -> int:
        """Returns the number of a space in the tables. Raises `ConfigError` if its vectors are too long to be searched."""
        if (number := self._numbers.get(space.name)) is None:
            if space.dimensions > MOST_DIMENSIONS:
                raise ConfigError(
                    f"the vectors of {space.name} have {space.dimensions:,} numbers, and PostgreSQL searches at most "
                    f"{MOST_DIMENSIONS:,}; set embedding.dimensions to a smaller number"
                )
            connection.execute(ADD_SPACE, {"name": space.name, "dimensions": space.dimensions})
            number = self._numbers[space.name] = connection.execute(SPACE, {"name": space.name}).scalar_one()
        return number

    def _statement(self, template: str, **values: object) -> TextClause:
        assert self._extension is not None
        extension = self._extension
        names = {
            "type": extension.vector,
            "sending": extension.sending,
            "distance": extension.distance,
            "order": extension.order,
        }
        return text(template.format(**names, **values))

    async def _done(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of statements that are each committed by themselves. Raises `StorageError`."""
        return await self._in_thread(lambda: self._run(work))

    def _run(self, work: Callable[[Connection], T]) -> T:
        if self._extension is None:
            self._make_tables()
        try:
            return self._attempt(work)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return self._attempt(work)  # the connection was lost while it was idle, and the server may be there

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        with self._connection() as connection:
            return work(connection)

    def _connection(self) -> Connection:
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def _make_tables(self) -> None:
        with self._opening:
            if self._extension is None:
                with self._engine.begin() as connection:
                    self._extension = made_tables(connection)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Runs work in a thread. If nobody waits for it any more, it goes on to its end."""

        def outcome() -> T:
            try:
                return work()
            except SQLAlchemyError as error:
                raise StorageError(f"the vectors cannot be read or written: {reason_of(error)}") from error

        try:
            done: Future[T] = self._threads.submit(outcome)
        except RuntimeError as error:  # the pool refuses work once it is shut down
            raise StorageError("the database is closed") from error
        return await asyncio.shield(asyncio.wrap_future(done))


def _index_name(number: int) -> str:
    return f"tool_vectors_nearest_{number}"


def _claim_key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"toolcaddie vectors {name}".encode(), digest_size=8).digest(), signed=True)


def _literal(row: bytes) -> str:
    """Returns a vector as the extension reads it."""
    return str(np.frombuffer(row, dtype=np.float16).astype(np.float32).tolist())


def _halves(sent: bytes) -> bytes:
    """Returns the half floats of a vector that the server sent, in the order of bytes that numpy uses."""
    return np.frombuffer(sent, dtype=">f2", offset=_HEAD).astype(np.float16).tobytes()
