"""Statements for the driver itself, compiled once: what is written for every call costs more to build than to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.dml import Insert, Update


class CompiledStatement:
    """An insert or update of plain columns: texts, numbers, NULL. Other types need what SQLAlchemy does to their values, and
    fixed values stand in the text, as `literal_column`.

    `columns`: those that an insert names.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._texts: dict[tuple[str, str], tuple[str, Sequence[str] | None]] = {}

    def execute(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Shape: a mapping with all parameters of the statement for each row."""
        dialect = connection.dialect
        known = self._texts.get((dialect.name, dialect.driver))
        text, order = self._compile(dialect) if known is None else known
        if order is None:
            connection.exec_driver_sql(text, list(rows))
        else:
            connection.exec_driver_sql(text, [tuple([row[name] for name in order]) for row in rows])

    def _compile(self, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
        compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
        found = str(compiled), compiled.positiontup
        self._texts[dialect.name, dialect.driver] = found
        return found
