"""Opens a database, migrates it to the newest schema and provides its stores."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.storage.audits import Audits
from toolcaddie.storage.chain import Chain
from toolcaddie.storage.figures import Figures
from toolcaddie.storage.files import OpenFiles
from toolcaddie.storage.jobs import DatabaseJobs
from toolcaddie.storage.journal import Journal
from toolcaddie.storage.keys import ApiKeys
from toolcaddie.storage.leases import LEASE_SECONDS, LONGEST_LEASE, DatabaseLeases
from toolcaddie.storage.meter import Meter
from toolcaddie.storage.migrations import NewerDatabaseError, upgrade
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.retention import Retention
from toolcaddie.storage.run_lists import RunLists
from toolcaddie.storage.seals import Sealer
from toolcaddie.storage.settle import settle_runs
from toolcaddie.storage.store import DatabaseStore
from toolcaddie.storage.upsert import DIALECTS
from toolcaddie.storage.writer import Writer

BUSY_SECONDS = 5.0
"""Default number of seconds for which a write waits for another process's lock."""
_WRITES = "toolcaddie_writes"
"""Name of the option that marks connections for writing."""
_NEXT_TRY = 0.01
"""Seconds until SQLite is asked again for a lock that it refuses without waiting."""
_MIGRATING = 0x746F6F6C63616464
"""Key of the advisory lock that Toolcaddie takes in a PostgreSQL database while it migrates."""
_MISSING = (
    "there is no database of Toolcaddie; correct the name, or make one with `toolcaddie run` or `toolcaddie serve`"
)
_EXAMPLES = (
    "write sqlite:///folder/file.sqlite, sqlite:////absolute/path/file.sqlite or postgresql://user@host/database"
)


class Database:
    """The database at `database_url`.

        Database("sqlite:///data/toolcaddie.sqlite")   a file; its folder is created if missing
        Database("sqlite:///:memory:")                 lost when it is closed
        Database("postgresql://user@host/database")    a PostgreSQL server, for several machines

        async with Database(url) as database:
            database.events       the event log
            database.store        small values under (kind, key)
            database.keys         the gateway's API keys
            database.meter        the use of those keys, and their limits
            database.retention    statistics, and pruning of old runs
            database.run_lists    lists of runs for people, in pages
            database.audits       checks of the trail, and its export
            database.leases       the processes that are alive
            database.jobs         jobs and their slots
            database.figures      sums over the trail, for the console

    Several processes may open one file. Raises `ConfigError` for an unusable URL or lease, on construction or in `open`.

    `clock` returns seconds since the epoch, for stored moments; `steady` returns seconds that never go back, for ages.
    `busy`: seconds for which a write waits for another process's lock. `lease`: seconds without a sign of life after which
    other processes settle the runs of this process, so that they can be resumed. `audit_key`: the key with which the trail is
    sealed (see `seals`); all processes need the same one. `create`: False if a database that does not exist yet is a
    `ConfigError`.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        busy: float = BUSY_SECONDS,
        lease: float = LEASE_SECONDS,
        audit_key: bytes | None = None,
        create: bool = True,
    ) -> None:
        if not 0 < lease <= LONGEST_LEASE:
            raise ConfigError(f"lease is {lease}; give seconds above 0 and up to {LONGEST_LEASE:,}")
        self._url = _parse(url)
        self._create = create
        KNOWN.add(self._url.password)
        self._in_memory = self._url.get_backend_name() == "sqlite" and _path(self._url) is None
        self._engine = _engine(self._url, in_memory=self._in_memory, busy=busy)
        self._writing = self._engine.execution_options(**{_WRITES: True})
        self._check = self._watch_files()
        self._writer = Writer(self._writing, check=self._check)
        self._reader = Reader(self._engine, shared=self._writer if self._in_memory else None, check=self._check)
        # Counts of keys do not wait for the disk: each request would pay for it, and a power cut that loses the last counts only
        # gives them to the keys again.
        self._relaxed = (
            self._engine if self._in_memory else _engine(self._url, in_memory=False, busy=busy, durable=False)
        )
        self._counter = (
            self._writer
            if self._in_memory
            else Writer(self._relaxed.execution_options(**{_WRITES: True}), check=self._check)
        )
        sealer = Sealer(audit_key)
        chain = self._chain = Chain(sealer)
        settle = partial(settle_runs, chain=chain, clock=clock)
        self.leases = DatabaseLeases(self._writer, self._reader, settle=settle, seconds=lease, alone=self._in_memory)
        self.events = Journal(self._writer, self._reader, self.leases, chain)
        self.store = DatabaseStore(self._writer, self._reader, self.leases, clock=clock, steady=steady)
        self.jobs = DatabaseJobs(self._writer, self._reader, self.leases)
        self.run_lists = RunLists(self._reader, flush=self.events.flush_if_possible)
        self.retention = Retention(self._writer, self._reader, chain, clock=clock)
        self.audits = Audits(self._writer, self._reader, sealer, clock=clock)
        self.keys = ApiKeys(self._writer, self._reader, clock=clock, steady=steady)
        self.meter = Meter(self._counter, self._reader, clock=clock)
        self.figures = Figures(self._counter, self._reader)

    @property
    def place(self) -> str:
        """The URL of the database, without its password."""
        return self._url.render_as_string(hide_password=True)

    async def open(self) -> None:
        """Connects, migrates and starts the writer. Raises `ConfigError` saying what to do."""
        try:
            await asyncio.to_thread(self._prepare)
        except ConfigError:
            self._engine.dispose()
            raise
        self._writer.start()
        if self._counter is not self._writer:
            self._counter.start()

    async def close(self) -> None:
        """Writes all queued rows, then disconnects. Raises `AuditError` if rows of the trail are lost."""
        try:
            await self.meter.close()
            await self.events.close()
        finally:
            await asyncio.to_thread(self._release)

    async def shrink(self) -> None:
        """Returns the free space of an SQLite file to the disk; PostgreSQL does so itself.

        Meanwhile a second copy of the file takes space on the disk, and every writer waits. Raises `StorageError`.
        """
        if self._engine.dialect.name == "sqlite" and not self._in_memory:
            await asyncio.to_thread(self._vacuum)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _watch_files(self) -> Callable[[], None]:
        """Returns a check that fails if the database file is no longer the one that was opened."""
        if self._url.get_backend_name() != "sqlite" or (path := _path(self._url)) is None:
            return _no_check
        files = OpenFiles(path)
        event.listen(self._engine, "do_connect", lambda *_: files.check_main())
        return files.check

    def _prepare(self) -> None:
        """Makes the file if it is missing, connects, and migrates the tables. Raises `ConfigError` saying what to do."""
        safe_url = self.place
        path = _path(self._url) if self._url.get_backend_name() == "sqlite" else None
        try:
            if path is not None and not self._create and not path.exists():
                raise ConfigError(f"database_url {safe_url}: {_MISSING}")
            if path is not None:
                _make_file(path)
            with self._writing.begin() as connection:
                _lock_migrations(connection)
                if upgrade(connection):
                    if not self._create:
                        raise ConfigError(f"database_url {safe_url}: {_MISSING}")
                    self._chain.begin(connection)
                self._check()
        except OSError as error:
            raise ConfigError(
                f"database_url {safe_url}: {error.strerror} ({error.filename}); choose a path this user may write, "
                "or correct the permissions of that folder"
            ) from error
        except NewerDatabaseError as error:
            raise ConfigError(
                f"database_url {safe_url}: the database was written by a newer Toolcaddie (its schema is {error}); "
                "upgrade Toolcaddie, or name another database"
            ) from error
        except SQLAlchemyError as error:
            raise ConfigError(
                f"database_url {safe_url}: cannot be opened: {getattr(error, 'orig', None) or error}; "
                "check that it is a database of Toolcaddie's own and that this user may write it"
            ) from error

    def _vacuum(self) -> None:
        """Rewrites an SQLite file without its unused space, and returns that space to the disk."""
        connection = (
            self._engine.raw_connection()
        )  # SQLAlchemy's own connection would begin a transaction, in which VACUUM fails
        try:
            cursor = connection.cursor()
            cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")  # for files created without it
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"the database cannot be shrunk: {error}") from error
        finally:
            connection.close()

    def _release(self) -> None:
        self.leases.close()
        self._counter.close()
        self._writer.close()
        self._reader.close()
        self._relaxed.dispose()
        self._engine.dispose()


def _no_check() -> None:
    """Does nothing: the check of a database that has no local file."""


def _parse(text: str) -> URL:
    """Returns the URL of a supported database. Raises `ConfigError`."""
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigError(
            f"database_url is not a URL; {_EXAMPLES}"
        ) from error  # without the text: it may hold a password
    if url.get_backend_name() not in DIALECTS:
        raise ConfigError(f"database_url: {url.get_backend_name()!r} is not supported; use {' or '.join(DIALECTS)}")
    return url


def is_in_memory(database_url: str) -> bool:
    """Returns True if no other process can open the database. Raises `ConfigError` for an unusable URL."""
    url = _parse(database_url)
    return url.get_backend_name() == "sqlite" and _path(url) is None


def exists(database_url: str) -> bool:
    """Returns False if the database is in memory or an SQLite file that does not exist. Opening it would make it, and a command
    that only reads must not do that. Raises `ConfigError` for an unusable URL."""
    url = _parse(database_url)
    path = _path(url)
    return url.get_backend_name() != "sqlite" or (path is not None and path.exists())


def _path(url: URL) -> Path | None:
    """Returns the file of an SQLite URL; None: the database is in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database))


def _engine(url: URL, *, in_memory: bool, busy: float, durable: bool = True) -> Engine:
    """Returns SQLAlchemy's engine for the database. `in_memory`: all threads share one connection. `busy`: seconds to wait for
    locks. `durable`: commits wait for the disk. Raises `ConfigError` if the driver is missing or not suitable."""
    options: dict[str, Any] = {}
    if in_memory:
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    elif url.get_backend_name() == "postgresql":
        options = {"pool_pre_ping": True}  # a connection dropped by the server or a firewall must not fail a run
    try:
        engine = create_engine(url, **options)
    except NoSuchModuleError as error:
        raise ConfigError(f"database_url: there is no driver {url.drivername!r}; {_EXAMPLES}") from error
    except ArgumentError as error:
        safe_url = url.render_as_string(hide_password=True)
        raise ConfigError(f"database_url {safe_url} cannot be used; {_EXAMPLES}") from error
    except ModuleNotFoundError as error:
        raise ConfigError(f"database_url: {_missing_driver(url)}") from error
    if engine.dialect.is_async:
        raise ConfigError(
            f"database_url: {url.drivername!r} is a driver for asyncio, which is not used here; {_EXAMPLES}"
        )
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", partial(_set_up_sqlite, busy=busy, durable=durable))
        event.listen(engine, "begin", _begin_sqlite)
    else:
        event.listen(engine, "connect", partial(_set_up_postgresql, busy=busy, durable=durable))
    return engine


def _missing_driver(url: URL) -> str:
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return "PostgreSQL needs a driver; pip install 'toolcaddie[postgresql]'"
    return (
        f"the driver of {url.drivername!r} is not installed; install it, or name no driver: {url.get_backend_name()}://"
    )


def _set_up_sqlite(connection: Any, _record: object, *, busy: float, durable: bool) -> None:
    """Configures a new connection to SQLite: waiting for locks, write-ahead log, and commits that survive a power cut."""
    connection.isolation_level = None  # the driver must not begin transactions by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {round(busy * 1000)}")  # first, so that the statements below wait for locks
    if cursor.execute("PRAGMA page_count").fetchone() == (0,):
        # Only in a new file, where it lets pruning return pages to the disk; in an old file it would be a write.
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _write_ahead(cursor, busy)
    # With NORMAL, commits survive the end of the process, and a power cut may undo the last ones.
    cursor.execute(
        f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}"
    )  # a power cut must not undo a recorded intent to call a tool
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _write_ahead(cursor: Any, busy: float) -> None:
    """Turns the write-ahead log on. Where another process is doing the same, SQLite fails at once instead of waiting, since it
    sees two that wait for each other; so it is tried again for `busy` seconds."""
    deadline = time.monotonic() + busy
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_NEXT_TRY)


def _set_up_postgresql(connection: Any, _record: object, *, busy: float, durable: bool) -> None:
    """Makes the connection wait for locks as on SQLite, and for the disk even if the server's own setting does not. If it need
    not be `durable`, it never waits for the disk."""
    cursor = connection.cursor()
    cursor.execute(f"SET lock_timeout = {round(busy * 1000)}")
    cursor.execute("SHOW synchronous_commit")
    if not durable:
        cursor.execute("SET synchronous_commit = off")
    elif cursor.fetchone()[0] == "off":
        cursor.execute("SET synchronous_commit = on")
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at the beginning of its transaction. A transaction that reads first and then writes fails
    # without waiting if another process has written in between.
    immediate = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _lock_migrations(connection: Connection) -> None:
    """Lets one process at a time look for missing tables; on SQLite the transaction itself has locked the file."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATING)))


def _make_file(path: Path) -> None:
    """Makes the folder and an empty file. Only this user may read it, because a trail contains what people wrote."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
