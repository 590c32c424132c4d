"""Checks values before they are copied into another kind of database, which may not store them.

SQLite stores any value in any column: texts longer than the column's length, NUL characters, bytes that are no UTF-8. PostgreSQL
refuses them, with an error that does not name the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, Double, Integer, LargeBinary, String, Table

from toolcaddie.core.errors import StorageError

_INT_BITS, _BIGINT_BITS = 32, 64
_LONGEST_KEY = 120
"""Number of characters of a row's key that an error shows."""
_NAMES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}

Problem = Callable[[Any], str | None]
"""Returns what is wrong with a value; None: it can be stored."""


class UnfitValueError(StorageError):
    """A value of the source cannot be stored in the target."""


class Values:
    """The values of a table on their way into a database of that dialect."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self._table = table
        self._problems: Sequence[tuple[str, Problem]] = [
            (column.name, _problem_of(column, dialect)) for column in table.columns
        ]

    def checked(self, rows: Iterable[Sequence[Any]]) -> list[Mapping[str, Any]]:
        """Returns rows as mappings. Raises `UnfitValueError`, which names the row and the column."""
        return [self._checked(row) for row in rows]

    def _checked(self, row: Sequence[Any]) -> Mapping[str, Any]:
        values = {}
        for value, (name, problem_of) in zip(row, self._problems, strict=True):
            if (problem := problem_of(value)) is not None:
                raise UnfitValueError(self._refusal(row, name, problem))
            values[name] = value
        return values

    def _refusal(self, row: Sequence[Any], column: str, problem: str) -> str:
        values = dict(zip(self._table.columns.keys(), row, strict=True))
        key = ", ".join(f"{part.name} = {_shown(values[part.name])}" for part in self._table.primary_key)
        return (
            f"the row {key} of table {self._table.name} cannot be copied: its column {column} {problem}. Nothing was copied; "
            "correct the value in the source, or remove the row, and copy again"
        )


def _problem_of(column: Column[Any], dialect: Dialect) -> Problem:
    """Returns the check of the values of a column, for databases of that dialect."""
    kind = column.type
    if isinstance(kind, Integer):
        wide = dialect.name == "sqlite" or isinstance(kind, BigInteger)
        check = _integer(_BIGINT_BITS if wide else _INT_BITS)
    elif isinstance(kind, Double):
        check = _number
    elif isinstance(kind, LargeBinary):
        check = _binary
    elif isinstance(kind, String):
        longest = getattr(kind.dialect_impl(dialect), "length", None) if dialect.name == "postgresql" else None
        check = _text(longest, dialect.name)
    else:
        raise TypeError(f"{column} has a type that no check knows: {kind!r}")
    return _or_null(check) if column.nullable else check


def _or_null(check: Problem) -> Problem:
    return lambda value: None if value is None else check(value)


def _integer(bits: int) -> Problem:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def problem(value: Any) -> str | None:
        if type(value) is not int:
            return f"must be a whole number and is {_kind(value)}"
        return None if least <= value <= most else f"is {value}, which does not fit into {bits} bits"

    return problem


def _number(value: Any) -> str | None:
    if not isinstance(value, int | float):
        return f"must be a number and is {_kind(value)}"
    return "is not a number (NaN)" if math.isnan(value) else None


def _binary(value: Any) -> str | None:
    return None if isinstance(value, bytes) else f"must be bytes and is {_kind(value)}"


def _text(longest: int | None, dialect: str) -> Problem:
    def problem(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"must be text and is {_kind(value)}"
        if not value.isascii() and not _is_unicode(value):
            return "is not valid UTF-8"
        if dialect == "postgresql" and "\0" in value:
            return f"contains a NUL character, which {_NAMES[dialect]} does not store"
        if longest is not None and len(value) > longest:
            return f"has {len(value):,} characters, and {_NAMES[dialect]} stores at most {longest}"
        return None

    return problem


def _is_unicode(text: str) -> bool:
    """Returns False if the text has bytes of the source that are no UTF-8: they were read as halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    if value is None:
        return "NULL"
    return {str: "text", bytes: "bytes", int: "a whole number", float: "a fraction"}.get(type(value), "of another type")


def _shown(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= _LONGEST_KEY else f"{shown[:_LONGEST_KEY]}..."
