"""One database: opened, brought to the newest shape, and its three stores handed out."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from toolcaddie.errors import ConfigError
from toolcaddie.storage.documents import DocumentStore
from toolcaddie.storage.journal import Journal
from toolcaddie.storage.keys import ApiKeys
from toolcaddie.storage.leases import LEASE_SECONDS, DatabaseLeases
from toolcaddie.storage.migrations import NewerDatabaseError, upgrade
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.settle import settle_runs
from toolcaddie.storage.upsert import DIALECTS
from toolcaddie.storage.writer import Writer

_BUSY_MILLISECONDS = 5_000
_WRITES = "toolcaddie_writes"
_EXAMPLES = "write sqlite:///folder/file.sqlite or sqlite:////absolute/path/file.sqlite"


class Database:
    """What `database_url` names.

        Database("sqlite:///data/toolcaddie.sqlite")   a file; its folder is made if it is not there
        Database("sqlite:///:memory:")                 gone when it is closed

        async with Database(url) as database:
            database.events       the event log
            database.documents    small values under (kind, key)
            database.keys         the gateway's API keys
            database.leases       which processes are living

    Several processes may open one file. Raises `ConfigError` for a URL that cannot be used, on construction or on `open`.
    `clock` gives seconds since the epoch. `lease`: seconds without a sign of life until others take over the runs of this
    process.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time, lease: float = LEASE_SECONDS) -> None:
        self._url = _parse(url)
        self._in_memory = self._url.get_backend_name() == "sqlite" and _path(self._url) is None
        self._engine = _engine(self._url, in_memory=self._in_memory)
        self._writing = self._engine.execution_options(**{_WRITES: True})
        self._writer = Writer(self._writing)
        self._reader = Reader(self._engine, shared=self._writer if self._in_memory else None)
        settle = partial(settle_runs, clock=clock)
        self.leases = DatabaseLeases(self._writer, self._reader, settle=settle, seconds=lease, alone=self._in_memory)
        self.events = Journal(self._writer, self._reader, self.leases)
        self.documents = DocumentStore(self._writer, self._reader, self.leases, clock=clock)
        self.keys = ApiKeys(self._writer, self._reader, clock=clock)

    async def open(self) -> None:
        """Connect, migrate, start writing. Raises `ConfigError` saying what to do."""
        try:
            await asyncio.to_thread(self._prepare)
        except ConfigError:
            self._engine.dispose()
            raise
        self._writer.start()

    async def close(self) -> None:
        """Write all that is queued, then let go. Raises `AuditError` if rows of the trail are lost."""
        try:
            await self.events.close()
        finally:
            await asyncio.to_thread(self._release)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _prepare(self) -> None:
        shown = self._url.render_as_string(hide_password=True)
        path = _path(self._url) if self._url.get_backend_name() == "sqlite" else None
        try:
            if path is not None:
                _make_file(path)
            with self._writing.begin() as connection:
                upgrade(connection)
        except OSError as error:
            raise ConfigError(
                f"database_url {shown}: {error.strerror} ({error.filename}); choose a path this user may write, "
                "or mend the rights of that folder"
            ) from error
        except NewerDatabaseError as error:
            raise ConfigError(
                f"database_url {shown}: the database was written by a newer Toolcaddie (its schema is {error}); "
                "upgrade Toolcaddie, or name another database"
            ) from error
        except SQLAlchemyError as error:
            raise ConfigError(
                f"database_url {shown}: cannot be opened: {getattr(error, 'orig', None) or error}; "
                "check that it is a database of Toolcaddie's own and that this user may write it"
            ) from error

    def _release(self) -> None:
        self.leases.close()
        self._writer.close()
        self._reader.close()
        self._engine.dispose()


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigError(f"database_url is not a URL; {_EXAMPLES}") from error  # not shown: it may hold a password
    if url.get_backend_name() not in DIALECTS:
        raise ConfigError(f"database_url: {url.get_backend_name()!r} is not supported; use {' or '.join(DIALECTS)}")
    return url


def _path(url: URL) -> Path | None:
    """The file of an SQLite URL; None: in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database))


def _engine(url: URL, *, in_memory: bool) -> Engine:
    options: dict[str, Any] = {}
    if in_memory:
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    try:
        engine = create_engine(url, **options)
    except NoSuchModuleError as error:
        raise ConfigError(f"database_url: there is no driver {url.drivername!r}; {_EXAMPLES}") from error
    except ArgumentError as error:
        shown = url.render_as_string(hide_password=True)
        raise ConfigError(f"database_url {shown} cannot be used; {_EXAMPLES}") from error
    except ModuleNotFoundError as error:
        raise ConfigError(f"database_url: the driver of {url.drivername!r} is not installed: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")  # first, so that the next ones may wait
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # an intent that a power cut can take back is no intent
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: one that begins as a reader and then writes fails without waiting when another
    # process wrote in between.
    immediate = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _make_file(path: Path) -> None:
    """The folder and an empty file that only this user may read: trails hold what people wrote."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
