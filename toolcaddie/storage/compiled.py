"""SQL statements that are compiled to text once and then executed through the driver.

The event log uses them: for rows that are written at every call of a tool, building a statement costs more than running it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.dml import Insert, Update

_AT_ONCE = (128, 32, 8)
"""Numbers of rows that one insert writes on SQLite. Its driver hands the interpreter over to other threads, and waits to get it
back, at each statement, also at each row of an `executemany`."""
_MOST_PARAMETERS = 999
"""The largest number of parameters of a statement that every version of SQLite allows."""
_ROW = re.compile(r"VALUES (\([?, ]+\))")


@cache
def _with_rows(text: str, size: int) -> str:
    """Returns an insert of one row as an insert of several rows."""
    return _ROW.sub(lambda match: f"VALUES {', '.join([match[1]] * size)}", text, count=1)


class CompiledStatement:
    """An insert or update whose parameters are texts, numbers and NULL.

    Values of other types would need SQLAlchemy's conversion, which is bypassed. A constant in the statement must be a
    `literal_column`, because each row supplies only the named parameters.

    `columns`: the columns that an insert fills; None for an update.
    """

    def __init__(self, statement: Insert | Update, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._texts: dict[tuple[str, str], tuple[str, Sequence[str] | None]] = {}
        """(dialect, driver) -> SQL text and the order of its parameters; None: the driver takes parameters by name."""

    def execute(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Runs the statement for each row, a mapping with all its parameters."""
        dialect = connection.dialect
        cached = self._texts.get((dialect.name, dialect.driver))
        text, order = self._compile(dialect) if cached is None else cached
        if order is None:
            # For several rows the driver takes a longer way, which pays for one row too.
            connection.exec_driver_sql(text, rows[0] if len(rows) == 1 else list(rows))
            return
        values = [tuple([row[name] for name in order]) for row in rows]
        at = 0
        if dialect.name == "sqlite" and self._columns is not None:
            for size in _AT_ONCE:
                while len(values) - at >= size and size * len(order) <= _MOST_PARAMETERS:
                    several = tuple(chain.from_iterable(values[at : at + size]))
                    connection.exec_driver_sql(_with_rows(text, size), several)
                    at += size
        if at < len(values):
            connection.exec_driver_sql(text, values[at:])

    def _compile(self, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
        compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
        entry = str(compiled), compiled.positiontup
        self._texts[dialect.name, dialect.driver] = entry
        return entry
