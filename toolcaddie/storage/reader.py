"""Runs the queries of the storage in threads, so that the event loop does not wait for the database.

Queries do not wait for the writer, nor the writer for them, except in a database in memory, which has one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Executable, Row
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.engines import without_transactions
from toolcaddie.storage.patience import Transactions
from toolcaddie.storage.reasons import reason_of
from toolcaddie.storage.writer import Writer, outcome

THREADS = 4
"""Number of threads, and so of queries at the same time."""

T = TypeVar("T")


class Reader:
    """Runs selects in its own threads, or in the thread of the writer `shared` if that writer has the only connection.

    `check` raises `StorageError` if the database file was deleted or replaced after it was opened.
    """

    def __init__(self, engine: Engine, *, check: Callable[[], None], shared: Writer | None = None) -> None:
        self._transactions = Transactions(engine, is_over=lambda: self._is_closed)
        self._selects = Transactions(without_transactions(engine), is_over=lambda: self._is_closed)
        self._is_closed = False
        self._check = check
        self._shared = shared
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="toolcaddie-reader")

    async def all(self, statement: Executable, **values: Any) -> Sequence[Row[Any]]:
        """Returns every row of a select; `values` are its parameters. Raises `StorageError`."""
        select = partial(_rows, statement=statement, values=values)
        return await outcome(self._submit(select, self._selects))

    async def snapshot(self, read: Callable[[Connection], T]) -> T:
        """Returns the result of several queries that see the database at one moment. Raises `StorageError`."""
        return await outcome(self._submit(lambda connection: read(_at_one_moment(connection)), self._transactions))

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown()

    def _submit(self, read: Callable[[Connection], T], transactions: Transactions) -> Future[T]:
        """Starts a query in a thread. Raises `StorageError` if the database is closed."""
        if self._shared is not None:
            return self._shared.submit(read)
        try:
            return self._threads.submit(self._read, read, transactions)
        except RuntimeError as error:  # the pool refuses work once it is shut down
            raise StorageError("the database is closed") from error

    def _read(self, read: Callable[[Connection], T], transactions: Transactions) -> T:
        """Runs a query. Raises `StorageError`."""
        try:
            result = transactions.read(read)
            self._check()
            return result
        except SQLAlchemyError as error:
            raise StorageError(f"the database cannot be read: {reason_of(error)}") from error


def _rows(connection: Connection, *, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row[Any]]:
    return connection.execute(statement, values).all()


def _at_one_moment(connection: Connection) -> Connection:
    """Returns the connection, whose transaction sees nothing that others commit from now on; on SQLite none does."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    return connection
