"""Statements compiled once for the driver: those written for every call cost more to build than to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.dml import Insert, Update


class CompiledStatement:
    """An insert or update of plain columns: texts, numbers, NULL. Other types need SQLAlchemy's conversion of their
    values, and constants must stand in the text as `literal_column`.

    `columns`: the columns that an insert names.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._texts: dict[tuple[str, str], tuple[str, Sequence[str] | None]] = {}

    def execute(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Runs the statement for each row, a mapping with all its parameters."""
        dialect = connection.dialect
        cached = self._texts.get((dialect.name, dialect.driver))
        text, order = self._compile(dialect) if cached is None else cached
        if order is None:
            connection.exec_driver_sql(text, list(rows))
        else:
            connection.exec_driver_sql(text, [tuple([row[name] for name in order]) for row in rows])

    def _compile(self, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
        compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
        entry = str(compiled), compiled.positiontup
        self._texts[dialect.name, dialect.driver] = entry
        return entry
