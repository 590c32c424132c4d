"""Inserts or overwrites rows, with statements that each SQL dialect spells its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Row, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert, ReturningInsert

from toolcaddie.storage.compiled import CompiledStatement

_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

DIALECTS = tuple(_INSERT)
"""Names of the supported dialects."""


def upsert(connection: Connection, table: Table, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Writes one or several rows (all columns); a row with the same primary key is overwritten."""
    dialect = connection.dialect.name
    if (
        dialect == "sqlite"
    ):  # its driver takes texts, bytes and numbers as they are; SQLAlchemy would take most of the time
        _compiled_upsert(dialect, table).execute(connection, [values] if isinstance(values, Mapping) else values)
    else:
        connection.execute(_upsert(dialect, table), values)


def insert_absent(connection: Connection, table: Table, row: Mapping[str, Any], *, now: float) -> bool:
    """Inserts a row, or overwrites an expired row with the same primary key.

    Returns False if there is a row with that key that has not expired.
    """
    statement = _insert_absent(connection.dialect.name, table)
    return connection.execute(statement, {**row, "now": now}).rowcount > 0


def add_to_row(connection: Connection, table: Table, row: Mapping[str, Any]) -> Row[Any]:
    """Adds the numbers of `row` to those of the row with the same primary key, or inserts it. Returns the columns that are not
    part of the key, with their sums."""
    return connection.execute(_add_to_row(connection.dialect.name, table), row).one()


def add_to_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Does the same with many rows (all columns: texts and whole numbers), and returns no sums."""
    _compiled_addition(connection.dialect.name, table).execute(connection, rows)


@cache
def _add_to_row(dialect: str, table: Table) -> ReturningInsert[Any]:
    statement = _addition(dialect, table)
    resolved: ReturningInsert[Any] = statement.returning(
        *(column for column in table.columns if column.name not in _keys(table))
    )
    return resolved


@cache
def _compiled_addition(dialect: str, table: Table) -> CompiledStatement:
    return CompiledStatement(_addition(dialect, table), [column.name for column in table.columns])


def _addition(dialect: str, table: Table) -> Insert:
    """Returns the statement that inserts a row, or adds its numbers to the row with the same primary key."""
    keys = _keys(table)
    statement = _INSERT[dialect](table).values({column.name: bindparam(column.name) for column in table.columns})
    sums = {name: table.c[name] + excluded for name, excluded in _other_columns(statement, table, keys).items()}
    resolved: Insert = statement.on_conflict_do_update(index_elements=keys, set_=sums)
    return resolved


@cache
def _compiled_upsert(dialect: str, table: Table) -> CompiledStatement:
    """Returns the same statement as `_upsert`, for rows that the driver takes as they are."""
    return CompiledStatement(_upsert(dialect, table), [column.name for column in table.columns])


@cache
def _upsert(dialect: str, table: Table) -> Insert:
    """Returns the statement that inserts a row, or overwrites the row with the same primary key."""
    keys = _keys(table)
    statement = _INSERT[dialect](table)
    resolved: Insert = statement.on_conflict_do_update(index_elements=keys, set_=_other_columns(statement, table, keys))
    return resolved


@cache
def _insert_absent(dialect: str, table: Table) -> Executable:
    """Returns the statement that inserts a row, or overwrites an expired row with the same primary key."""
    keys = _keys(table)
    statement = _INSERT[dialect](table).values({column.name: bindparam(column.name) for column in table.columns})
    resolved: Executable = statement.on_conflict_do_update(
        index_elements=keys, set_=_other_columns(statement, table, keys), where=table.c.expires <= bindparam("now")
    )
    return resolved.execution_options(preserve_rowcount=True)  # by default SQLAlchemy drops the row count of an insert


def _keys(table: Table) -> Sequence[str]:
    return [column.name for column in table.primary_key]


def _other_columns(statement: Any, table: Table, keys: Sequence[str]) -> Mapping[str, Any]:
    return {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
