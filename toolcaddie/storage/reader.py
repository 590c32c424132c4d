"""Reading off the event loop. Readers never wait for the writer, nor it for them, except where there is one connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.writer import Writer, outcome

_THREADS = 4

Rows = Sequence[Row[Any]]


class Reader:
    """Runs selects in threads of its own; with `shared`, in the thread of that writer, whose connection is the only one.

    `check` raises `StorageError` where what is read is no longer the database.
    """

    def __init__(self, engine: Engine, *, check: Callable[[], None], shared: Writer | None = None) -> None:
        self._engine = engine
        self._check = check
        self._shared = shared
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="toolcaddie-reader")

    async def all(self, statement: Select[Any], **values: Any) -> Rows:
        """Every row of the answer; `values` are for the statement's own parameters. Raises `StorageError`."""
        return await outcome(self._submit(lambda connection: connection.execute(statement, values).all()))

    def close(self) -> None:
        self._threads.shutdown()

    def _submit(self, read: Callable[[Connection], Rows]) -> Future[Rows]:
        if self._shared is not None:
            return self._shared.submit(read)
        try:
            return self._threads.submit(self._read, read)
        except RuntimeError as error:  # the pool's way of saying so
            raise StorageError("the database is closed") from error

    def _read(self, read: Callable[[Connection], Rows]) -> Rows:
        try:
            with self._engine.begin() as connection:
                rows = read(connection)
                self._check()
            return rows
        except SQLAlchemyError as error:
            raise StorageError(f"the database cannot be read: {error}") from error
