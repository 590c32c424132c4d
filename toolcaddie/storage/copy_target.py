"""The database into which another one is copied: it gets the schema, and must have no rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Column, Connection, Engine, delete, func, literal, select, text

from toolcaddie.core.errors import ConfigError
from toolcaddie.storage.engines import (
    BUSY_SECONDS,
    WRITES,
    engine_of,
    lock_migrations,
    make_file,
    named_errors,
    path_of,
)
from toolcaddie.storage.migrations import NewerDatabaseError, upgrade
from toolcaddie.storage.tables import commit_marks, figures_position, metadata, trail_head

_WITH_FIRST_ROW = (commit_marks, figures_position, trail_head)
"""Tables that get a row when they are made, or from the process that opens the database."""
_NUMBER_IN_SQLITE = text("SELECT seq FROM sqlite_sequence WHERE name = :of_table")
_NUMBER_IN_POSTGRESQL = text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:of_table, :of_column)::regclass)")


def target_engine(url: URL, place: str) -> Engine:
    """Returns the engine for the target, whose file is made if it is missing. Raises `ConfigError`."""
    engine = named_errors(engine_of(url, in_memory=False, busy=BUSY_SECONDS), place)
    path = path_of(url) if url.get_backend_name() == "sqlite" else None
    try:
        if path is not None:
            make_file(path)
    except OSError as error:
        raise ConfigError(f"{place}: {error.strerror} ({error.filename}); choose a path this user may write") from error
    return engine.execution_options(**{WRITES: True})


def require_empty(connection: Connection, place: str) -> None:
    """Makes the schema, locks all tables and removes the rows that the schema begins with. Raises `ConfigError` if there are
    others."""
    lock_migrations(connection)
    try:
        upgrade(connection)
    except NewerDatabaseError as error:
        raise ConfigError(
            f"{place}: the database was written by a newer Toolcaddie (its schema is {error}); name an empty one"
        ) from error
    if connection.dialect.name == "postgresql":  # on SQLite the transaction has locked the file
        quoted = connection.dialect.identifier_preparer.format_table
        names = ", ".join(quoted(table) for table in metadata.sorted_tables)
        connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
    for table in metadata.sorted_tables:
        if table in _WITH_FIRST_ROW:
            connection.execute(delete(table))
        elif rows := connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise ConfigError(
                f"{place}: the target is not empty: its table {table.name} has {rows} row{'' if rows == 1 else 's'}, and a copy "
                "overwrites nothing; name an empty database, or a file that does not exist"
            )


def set_last_numbers(reading: Connection, writing: Connection) -> None:
    """Sets the counters of the target behind all numbers that the source has given, also to rows that are gone: the number of a
    lease is never given again."""
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is not None and (number := _last_number(reading, column)):
            _set_last_number(writing, column, number)


def _last_number(connection: Connection, column: Column[Any]) -> int:
    names = {"of_table": column.table.name, "of_column": column.name}
    if connection.dialect.name == "postgresql":
        last = connection.execute(_NUMBER_IN_POSTGRESQL, names).scalar()
    elif _has_counter(column):
        last = connection.execute(_NUMBER_IN_SQLITE, names).scalar()
    else:
        last = None
    return max(last or 0, connection.execute(select(func.max(column))).scalar() or 0)


def _set_last_number(connection: Connection, column: Column[Any], number: int) -> None:
    table = column.table.name
    if connection.dialect.name == "postgresql":
        counter = func.pg_get_serial_sequence(table, column.name)
        connection.execute(select(func.setval(counter, literal(number))))
    elif _has_counter(column):
        values = {"of_table": table, "number": number}
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :of_table"), values)
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:of_table, :number)"), values)


def _has_counter(column: Column[Any]) -> bool:
    """Returns True if SQLite counts the numbers of the column itself; otherwise it continues after the highest row."""
    return bool(column.table.dialect_options["sqlite"]["autoincrement"])
