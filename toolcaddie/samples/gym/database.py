"""The SQLite database of the sample gym, and the execution of operations on it. An operation (`operations.py`) is a tool as data:
parameters, checks, statements that write, and queries for the answer. This file names no tool and no table of the gym.

Calls come from many threads and share one connection. A call holds the lock for its whole transaction, so that no call sees an
incomplete change of another call.
"""

from __future__ import annotations

import math
import re
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from importlib.resources import files
from typing import Any

from toolcaddie.core.errors import ConfigError
from toolcaddie.samples.gym.operations import Operation, Param, Show

_VERSION = 1
"""Version of the tables. It is stored in the file as SQLite's user_version."""

_RELATIVE_DAYS = {"today": 0, "tomorrow": 1, "yesterday": -1}
_WORD = re.compile(r"\w+")


class Refused(Exception):
    """Raised if the data does not allow a call; the message tells the caller what to do."""


class Database:
    """A gym's data. `today` returns the gym's date; it is called for every operation, because the day may change while the
    gym is in use."""

    def __init__(self, path: str, today: Callable[[], date]) -> None:
        self._today = today
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
        except sqlite3.OperationalError as error:
            raise ConfigError(f"the gym's database {path!r} cannot be opened: {error}; give another path") from error
        self._connection.row_factory = sqlite3.Row
        self._connection.create_function("today", 0, lambda: today().isoformat())
        self._connection.create_function("now_time", 0, lambda: datetime.now().strftime("%H:%M"))
        self._connection.create_function("matches", 2, matches, deterministic=True)
        self._connection.execute("PRAGMA foreign_keys = ON")

    def prepare(self, path: str, fill: Callable[[sqlite3.Connection], None]) -> None:
        """Creates the tables and calls `fill`, unless the file contains a gym already. Raises `ConfigError` if it contains
        anything else."""
        try:
            with self.transaction() as connection:
                if connection.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
                    return
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise ConfigError(f"{path!r} is a database of something else; give a new path for the gym")
                for statement in _statements(files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")):
                    connection.execute(statement)
                fill(connection)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        except sqlite3.DatabaseError as error:
            raise ConfigError(f"{path!r} cannot be used as the gym's database: {error}; give a new path") from error

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Opens a transaction with exclusive use of the connection."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def run(self, operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs an operation and returns its answer. If it raises `Refused`, nothing was written."""
        values = self._values(operation.params, arguments)
        try:
            with self.transaction(writes=bool(operation.writes)) as connection:
                _check_ids(connection, operation.params, values)
                _check_refusals(connection, operation, values)
                for write in operation.writes:
                    cursor = connection.execute(write.sql(values), values)
                    values.setdefault("new_id", cursor.lastrowid)
                return _answer(connection, operation, values)
        except sqlite3.IntegrityError as error:
            raise Refused(f"the database refuses this: {error}") from error
        except sqlite3.OperationalError as error:
            raise Refused(f"the database cannot do this now: {error}; try again") from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _values(self, params: Sequence[Param], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a value for every parameter: the argument, the default, or None. A word such as "today" becomes a date."""
        values: dict[str, Any] = {}
        for param in params:
            value = arguments.get(param.name)
            value = param.default if value is None else value
            values[param.name] = self._value(param, value)
        return values

    def _value(self, param: Param, value: Any) -> Any:
        if isinstance(value, str):
            value = _clean(param.name, value)
            return self._day(param.name, value) if param.kind == "day" else value
        if isinstance(value, float) and not math.isfinite(value):
            raise Refused(f"{param.name} must be a number, not {value}")
        return value

    def _day(self, name: str, value: str) -> str:
        """Returns a date as YYYY-MM-DD, from a date or a word such as "today". `name` is the parameter's name for the error."""
        try:
            if value in _RELATIVE_DAYS:
                return (self._today() + timedelta(days=_RELATIVE_DAYS[value])).isoformat()
            return date.fromisoformat(value).isoformat()
        except ValueError:
            raise Refused(
                f"{name}: there is no day {value!r}; give YYYY-MM-DD, or today, tomorrow, yesterday"
            ) from None


def matches(text: str, search: str) -> bool:
    """Returns True if every word of `search` begins a word of `text`, regardless of case and accents: "smith jo" finds John
    Smith."""
    words = _WORD.findall(_folded(text))
    return all(any(word.startswith(part) for word in words) for part in _WORD.findall(_folded(search)))


def _folded(text: str) -> str:
    """Returns the text in lower case, without accents and without 's."""
    # Users write "John's": the 's is not a part of the name.
    plain = re.sub(r"['’]s\b", "", text.casefold())
    return "".join(letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter))


def _clean(name: str, value: str) -> str:
    """Returns a text argument without spaces at its ends. Raises `Refused` if it is blank or cannot be stored."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(f"{name} has characters that are not valid Unicode; send plain text") from None
    if "\0" in value:
        raise Refused(f"{name} has a NUL character; send plain text")
    if not value.strip():
        raise Refused(f"{name} is blank; give a text, or omit the parameter")
    return value.strip()


def _check_ids(connection: sqlite3.Connection, params: Sequence[Param], values: Mapping[str, Any]) -> None:
    """Raises `Refused` if an argument is an id that is not in its table."""
    for param in params:
        value = values[param.name]
        if param.table is None or value is None:
            continue
        check = f"SELECT 1 FROM (SELECT id FROM {param.table}) WHERE id = :{param.name}"
        if connection.execute(check, values).fetchone() is None:
            raise Refused(f"There is no {param.name} {value}; {param.finder} returns the ids that exist.")


def _check_refusals(connection: sqlite3.Connection, operation: Operation, values: Mapping[str, Any]) -> None:
    """Raises `Refused` if the query of one of the operation's refusals finds a row."""
    for refusal in operation.refusals:
        row = connection.execute(refusal.query, values).fetchone()
        if row is not None:
            raise Refused(refusal.message.format_map({**values, **dict(row)}))


def _answer(connection: sqlite3.Connection, operation: Operation, values: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for show in operation.shows:
        answer.update(_part_of_answer(connection, show, operation.params, values))
    return answer


def _part_of_answer(
    connection: sqlite3.Connection, show: Show, params: Sequence[Param], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the fields of the answer that one `Show` describes: the columns of one row, all rows, or a page with the total."""
    query = _query(show, params, values)
    if not show.many:
        record = connection.execute(query, values).fetchone()
        row = None if record is None else dict(record)
        return {show.key: row} if show.key else row or {}
    if not show.paged:
        return {show.key: [dict(row) for row in connection.execute(query, values)]}
    total = connection.execute(f"SELECT count(*) FROM ({query})", values).fetchone()[0]
    page = connection.execute(f"{query} LIMIT :limit OFFSET :offset", values)
    return {show.key: [dict(row) for row in page], "total": total}


def _query(show: Show, params: Sequence[Param], values: Mapping[str, Any]) -> str:
    """Returns the SQL query of a part of the answer. A list in pages is filtered by each parameter that is a filter and has a
    value."""
    if not show.paged:
        return show.query
    active_filters = (param.where for param in params if param.where is not None and values[param.name] is not None)
    conditions = [*show.filters, *(condition for condition in active_filters if condition)]
    where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
    return f"{show.query}{where} ORDER BY {show.order}"


def _statements(script: str) -> Iterator[str]:
    """Yields the statements of a script one by one, because `executescript` would commit the open transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
