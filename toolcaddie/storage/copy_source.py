"""The database that is copied: it is only read, and no process may use it meanwhile."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, func, literal_column, select

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.storage.engines import BUSY_SECONDS, engine_of, named_errors, path_of
from toolcaddie.storage.migrations import revisions
from toolcaddie.storage.tables import COPIED, owners

_GLANCE = 0.05
"""Seconds between two looks at the beats of the processes."""
_OWNERS = select(owners.c.number, owners.c.beat, owners.c.seconds, owners.c.label)
# A row that was written again has another place or another transaction.
_VERSIONS: Any = literal_column("sum(hashtextextended(ctid::text || ' ' || xmin::text, 0))")

Owners = Mapping[int, Any]
"""The rows of `owners` by number."""


def source_engine(url: URL, place: str) -> Engine:
    """Returns the engine for the source. On SQLite its connections cannot write. Raises `ConfigError`."""
    if url.get_backend_name() != "sqlite":
        return named_errors(engine_of(url, in_memory=False, busy=BUSY_SECONDS), place)
    path = path_of(url)
    if path is None or not path.exists():
        raise ConfigError(f"{place}: there is no such file; correct the name of the database that is to be copied")

    def connect() -> sqlite3.Connection:
        address = f"file:{quote(str(path.absolute()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        # Bytes that are no UTF-8 must not fail the read, because its error does not name the row: `copied_values` does.
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return named_errors(engine, place)


@contextmanager
def snapshot(connection: Connection) -> Iterator[Connection]:
    """Begins a transaction that sees the source at one moment, and cannot write."""
    with connection.begin():
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield connection


def require_schema(connection: Connection, place: str) -> None:
    """Raises `ConfigError` if the source does not have the schema of this version."""
    current, known = revisions(connection)
    if current is None:
        raise ConfigError(f"{place}: there is no database of Toolcaddie to copy; correct the name")
    if current not in known:
        raise ConfigError(
            f"{place}: the database was written by a newer Toolcaddie (its schema is {current}); upgrade Toolcaddie"
        )
    if current != known[0]:
        raise ConfigError(
            f"{place}: its schema is {current}, and this version's is {known[0]}; stop all processes that use it and run "
            f"`toolcaddie db stats --database-url {place}`, which migrates it"
        )


def unused(connection: Connection, place: str) -> Owners:
    """Waits until each process with a lease has had the time to show that it is alive. Returns the leases of dead processes.

    Raises `StorageError` if a process is alive.
    """
    known = _owners(connection)
    deadline = time.monotonic() + max((owner.seconds for owner in known.values()), default=0.0)
    while known and time.monotonic() < deadline:
        time.sleep(_GLANCE)
        known = still_unused(connection, known, place)
    return known


def still_unused(connection: Connection, known: Owners, place: str) -> Owners:
    """Returns the leases of dead processes now. Raises `StorageError` if a process is alive: it has renewed its lease, or taken
    one. `known`: the leases before."""
    now = _owners(connection)
    for number, owner in now.items():
        if number not in known or owner.beat != known[number].beat:
            raise StorageError(
                f"{place}: {owner.label} uses this database (lease {number}), and what it writes during the copy would be "
                "missing from it; stop that process and copy again"
            )
    return now


def counts(connection: Connection) -> Mapping[str, int]:
    """Returns the number of rows of each table."""
    return {table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in COPIED}


def state(connection: Connection) -> Any:
    """Returns a value that changes with every write to the database. Two of them can be compared if the same connection has read
    them, in two transactions."""
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql("PRAGMA data_version").scalar_one()
    return [tuple(connection.execute(select(func.count(), _VERSIONS).select_from(table)).one()) for table in COPIED]


def _owners(connection: Connection) -> Owners:
    """Reads in a transaction of its own, unless there is one."""
    if connection.in_transaction():
        return {row.number: row for row in connection.execute(_OWNERS)}
    with connection.begin():
        return {row.number: row for row in connection.execute(_OWNERS)}
