"""Insert or overwrite: the one statement that SQL's dialects spell for themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERT: Mapping[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

DIALECTS = tuple(_INSERT)
"""The databases there are words for."""


def upsert(connection: Connection, table: Table, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Put a row or several (all their columns), each over the one with the same primary key if there is one."""
    connection.execute(_statement(connection.dialect.name, table), values)


@cache
def _statement(dialect: str, table: Table) -> Executable:
    keys = [column.name for column in table.primary_key]
    statement = _INSERT[dialect](table)
    rest = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    written: Executable = statement.on_conflict_do_update(index_elements=keys, set_=rest)
    return written
