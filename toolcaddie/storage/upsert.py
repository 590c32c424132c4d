"""Insert or overwrite: the statements that SQL's dialects spell for themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table, bindparam
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

DIALECTS = tuple(_INSERT)
"""The databases there are words for."""


def upsert(connection: Connection, table: Table, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Put a row or several (all their columns), each over the one with the same primary key if there is one."""
    connection.execute(_upsert(connection.dialect.name, table), values)


def insert_absent(connection: Connection, table: Table, row: Mapping[str, Any], *, now: float) -> bool:
    """Put a row where none with its primary key is, or one that has expired. False: there is one."""
    statement = _insert_absent(connection.dialect.name, table)
    return connection.execute(statement, {**row, "now": now}).rowcount > 0


@cache
def _upsert(dialect: str, table: Table) -> Executable:
    keys = _keys(table)
    statement = _INSERT[dialect](table)
    written: Executable = statement.on_conflict_do_update(index_elements=keys, set_=_rest(statement, table, keys))
    return written


@cache
def _insert_absent(dialect: str, table: Table) -> Executable:
    keys = _keys(table)
    statement = _INSERT[dialect](table).values({column.name: bindparam(column.name) for column in table.columns})
    written: Executable = statement.on_conflict_do_update(
        index_elements=keys, set_=_rest(statement, table, keys), where=table.c.expires <= bindparam("now")
    )
    return written.execution_options(preserve_rowcount=True)  # of an insert it would be thrown away


def _keys(table: Table) -> Sequence[str]:
    return [column.name for column in table.primary_key]


def _rest(statement: Any, table: Table, keys: Sequence[str]) -> Mapping[str, Any]:
    return {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
