"""Opens a database, migrates it to the newest schema and provides its stores."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import StorageWatch
from toolcaddie.storage.audits import Audits
from toolcaddie.storage.chain import Chain
from toolcaddie.storage.engines import BUSY_SECONDS, WRITES, engine_of, lock_migrations, make_file, parse_url, path_of
from toolcaddie.storage.figures import Figures
from toolcaddie.storage.files import OpenFiles
from toolcaddie.storage.jobs import DatabaseJobs
from toolcaddie.storage.journal import Journal
from toolcaddie.storage.keys import ApiKeys
from toolcaddie.storage.leases import LEASE_SECONDS, LONGEST_LEASE, DatabaseLeases
from toolcaddie.storage.meter import Meter
from toolcaddie.storage.migrations import NewerDatabaseError, upgrade
from toolcaddie.storage.notices import Notices
from toolcaddie.storage.partitions import ROWS, prove_bound
from toolcaddie.storage.reader import THREADS, Reader
from toolcaddie.storage.reasons import reason_of
from toolcaddie.storage.retention import Retention
from toolcaddie.storage.run_lists import RunLists
from toolcaddie.storage.seals import Sealer
from toolcaddie.storage.settle import settle_runs
from toolcaddie.storage.store import DatabaseStore
from toolcaddie.storage.watch import UNWATCHED
from toolcaddie.storage.writer import Writer

MOST_CONNECTIONS = THREADS + 3
"""The largest number of connections of a process: one for each thread of the reader, and for the writer, the counter of keys, and
the news of other processes."""

_MISSING = (
    "there is no database of Toolcaddie; correct the name, or make one with `toolcaddie run` or `toolcaddie serve`"
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
            database.notices      news of changes that other processes made

    Several processes may open one file. Raises `ConfigError` for an unusable URL or lease, on construction or in `open`.

    `clock` returns seconds since the epoch, for stored moments; `steady` returns seconds that never go back, for ages.
    `busy`: seconds for which a write waits for another process's lock. `lease`: seconds without a sign of life after which
    other processes settle the runs of this process, so that they can be resumed. `audit_key`: the key with which the trail is
    sealed (see `seals`); all processes need the same one. `create`: False if a database that does not exist yet is a
    `ConfigError`. `watch` hears what the database does. `partition_rows`: see `partitions.Room`.
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
        watch: StorageWatch = UNWATCHED,
        partition_rows: int = ROWS,
    ) -> None:
        if not 0 < lease <= LONGEST_LEASE:
            raise ConfigError(f"lease is {lease}; give seconds above 0 and up to {LONGEST_LEASE:,}")
        self._url = parse_url(url)
        self._create = create
        KNOWN.add(self._url.password)
        self._in_memory = self._url.get_backend_name() == "sqlite" and path_of(self._url) is None
        self._engine = engine_of(self._url, in_memory=self._in_memory, busy=busy)
        self._writing = self._engine.execution_options(**{WRITES: True})
        self._check = self._watch_files()
        self._writer = Writer(self._writing, check=self._check, watch=watch)
        self._reader = Reader(self._engine, shared=self._writer if self._in_memory else None, check=self._check)
        # Counts of keys do not wait for the disk: each request would pay for it, and a power cut that loses the last counts only
        # gives them to the keys again.
        self._relaxed = (
            self._engine if self._in_memory else engine_of(self._url, in_memory=False, busy=busy, durable=False)
        )
        self._counter = (
            self._writer
            if self._in_memory
            else Writer(self._relaxed.execution_options(**{WRITES: True}), check=self._check, watch=watch)
        )
        sealer = Sealer(audit_key)
        chain = self._chain = Chain(sealer, partition_rows=partition_rows)
        settle = partial(settle_runs, chain=chain, clock=clock)
        self.leases = DatabaseLeases(
            self._writer, self._reader, settle=settle, seconds=lease, alone=self._in_memory, watch=watch
        )
        self.events = Journal(self._writer, self._reader, self.leases, chain, watch=watch)
        self.store = DatabaseStore(self._writer, self._reader, self.leases, clock=clock, steady=steady)
        self.jobs = DatabaseJobs(self._writer, self._reader, self.leases)
        self.run_lists = RunLists(self._reader, flush=self.events.flush_if_possible)
        self.retention = Retention(self._writer, self._reader, chain, self._engine, clock=clock)
        self.audits = Audits(self._writer, self._reader, sealer, clock=clock)
        self.keys = ApiKeys(self._writer, self._reader, clock=clock, steady=steady)
        self.meter = Meter(self._counter, self._reader, clock=clock)
        self.figures = Figures(self._counter, self._reader)
        self.notices = Notices(self._writer, self._reader, self._engine)

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
            await self.notices.close()
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
        if self._url.get_backend_name() != "sqlite" or (path := path_of(self._url)) is None:
            return _no_check
        files = OpenFiles(path)
        event.listen(self._engine, "do_connect", lambda *_: files.check_main())
        return files.check

    def _prepare(self) -> None:
        """Makes the file if it is missing, connects, and migrates the tables. Raises `ConfigError` saying what to do."""
        safe_url = self.place
        path = path_of(self._url) if self._url.get_backend_name() == "sqlite" else None
        try:
            if path is not None and not self._create and not path.exists():
                raise ConfigError(f"database_url {safe_url}: {_MISSING}")
            if path is not None:
                make_file(path)
            prove_bound(self._writing)
            with self._writing.begin() as connection:
                lock_migrations(connection)
                if upgrade(connection):
                    if not self._create:
                        raise ConfigError(f"database_url {safe_url}: {_MISSING}")
                    self._chain.begin(connection)
                self._chain.room.open(connection)
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
                f"database_url {safe_url}: cannot be opened: {reason_of(error)}; "
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


def is_in_memory(database_url: str) -> bool:
    """Returns True if no other process can open the database. Raises `ConfigError` for an unusable URL."""
    url = parse_url(database_url)
    return url.get_backend_name() == "sqlite" and path_of(url) is None


def exists(database_url: str) -> bool:
    """Returns False if the database is in memory or an SQLite file that does not exist. Opening it would make it, and a command
    that only reads must not do that. Raises `ConfigError` for an unusable URL."""
    url = parse_url(database_url)
    path = path_of(url)
    return url.get_backend_name() != "sqlite" or (path is not None and path.exists())
