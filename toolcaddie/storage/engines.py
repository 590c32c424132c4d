"""Makes the connections to a database: the URLs that are supported, the driver's settings, and the lock for migrations."""

from __future__ import annotations

import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    StaticPool,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.storage.upsert import DIALECTS

BUSY_SECONDS = 5.0
"""Default number of seconds for which a write waits for another process's lock."""
WRITES = "toolcaddie_writes"
"""Name of the option that marks connections for writing."""
_NEXT_TRY = 0.01
"""Seconds until SQLite is asked again for a lock that it refuses without waiting."""
_MIGRATING = 0x746F6F6C63616464
"""Key of the advisory lock that Toolcaddie takes in a PostgreSQL database while it migrates."""
_EXAMPLES = (
    "write sqlite:///folder/file.sqlite, sqlite:////absolute/path/file.sqlite or postgresql://user@host/database"
)


def parse_url(text: str) -> URL:
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


def path_of(url: URL) -> Path | None:
    """Returns the file of an SQLite URL; None: the database is in memory."""
    return None if url.database in (None, "", ":memory:") else Path(str(url.database))


def engine_of(url: URL, *, in_memory: bool, busy: float, durable: bool = True) -> Engine:
    """Returns SQLAlchemy's engine for the database. `in_memory`: all threads share one connection. `busy`: seconds to wait for
    locks. `durable`: commits wait for the disk. Raises `ConfigError` if the driver is missing or not suitable."""
    options: dict[str, Any] = {}
    if in_memory:
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
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


def without_transactions(engine: Engine) -> Engine:
    """Returns the engine without transactions around its statements. On PostgreSQL a single select needs none, and waits for one
    answer then instead of three; on SQLite nothing is different."""
    return engine.execution_options(isolation_level="AUTOCOMMIT") if engine.dialect.name == "postgresql" else engine


def named_errors(engine: Engine, place: str) -> Engine:
    """Makes every error of the engine's connections a `StorageError` that names the database, for work with two of them."""

    def name(context: ExceptionContext) -> None:
        if not context.is_pre_ping:
            reason = " ".join(str(context.original_exception).split())
            raise StorageError(f"{place}: {reason}") from context.original_exception

    event.listen(engine, "handle_error", name)
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
    immediate = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def lock_migrations(connection: Connection) -> None:
    """Lets one process at a time look for missing tables; on SQLite the transaction itself has locked the file."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATING)))


def make_file(path: Path) -> None:
    """Makes the folder and an empty file. Only this user may read it, because a trail contains what people wrote."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
