"""Copies a database into another one, which may be of the other kind: `copy_database` from SQLite to PostgreSQL and back.

The source is read in one transaction, so all tables are of the same moment. The target is written in one transaction, with its
schema: a copy that fails or is killed leaves an empty database, and nobody can open a half of one. The rows pass through memory
in batches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import URL, Connection, Table, insert, select

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.storage.chain import read_head
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.copied_values import Values
from toolcaddie.storage.copy_source import counts, require_schema, snapshot, source_engine, state, still_unused, unused
from toolcaddie.storage.copy_target import require_empty, set_last_numbers, target_engine
from toolcaddie.storage.engines import parse_url, path_of
from toolcaddie.storage.partitions import Room
from toolcaddie.storage.seals import Sealer
from toolcaddie.storage.tables import COPIED
from toolcaddie.storage.verification import Verification, verify

_BATCH = 32
"""Number of rows in memory at once. A row can be a document of several megabytes."""

Progress = Callable[[int, int], None]
"""Called with the number of completed steps and that of all steps: each row is copied, and each row of the trail is checked."""


class DatabaseCopy(Struct, frozen=True, kw_only=True):
    """The result of a copy."""

    tables: Mapping[str, int]
    """The number of rows of each table, which is the same in the source and in the target."""
    verification: Verification
    """The check of the trail in the target."""
    seconds: float


def copy_database(
    source: str, target: str, *, audit_key: bytes | None = None, progress: Progress = lambda completed, total: None
) -> DatabaseCopy:
    """Copies all tables of the database at the URL `source` into the empty or missing one at `target`, and checks them there.
    `audit_key`: the key with which the trail is sealed.

    Raises `ConfigError` if there is no source, its schema is not that of this version, or the target has rows. Raises
    `StorageError` if a process uses the source, a value cannot be stored in the target, the copy is not equal, or a database
    cannot be read or written. Then the target is as it was.
    """
    started = time.monotonic()
    source_url, target_url = _url(source), _url(target)
    if _is_same(source_url, target_url):
        raise ConfigError(f"{_place(source_url)}: source and target are the same database; name another target")
    place = _place(source_url)
    engine = source_engine(source_url, place)
    try:
        with closing(engine.connect()) as reading:
            with snapshot(reading):
                require_schema(reading, place)
            dead = unused(reading, place)
            with _writing(target_url) as writing:
                with snapshot(reading):
                    before, dead = state(reading), still_unused(reading, dead, place)
                    steps = _Steps(counts(reading), read_head(reading)[0].position, progress)
                    Room().reach(writing, read_head(reading)[0].position)
                    copied = _copy_tables(reading, writing, steps)
                    set_last_numbers(reading, writing)
                _require_equal(copied, counts(writing))
                report = _verified(writing, audit_key, steps)
                with snapshot(reading):
                    still_unused(reading, dead, place)
                    _require_unchanged(before, state(reading), place)
    finally:
        engine.dispose()
    return DatabaseCopy(tables=copied, verification=report, seconds=time.monotonic() - started)


class _Steps:
    """Counts the steps. `rows`: the number of rows of each table; `last`: the id of the last row of the trail."""

    def __init__(self, rows: Mapping[str, int], last: int, progress: Progress) -> None:
        self._rows = sum(rows.values())
        self._last = last
        self._progress = progress
        self._copied = 0

    def add_copied(self, rows: int) -> None:
        self._copied += rows
        self._progress(self._copied, self._rows + self._last)

    def set_checked(self, row: int) -> None:
        """Notes that the trail is checked up to the row with that id."""
        self._progress(self._rows + row, self._rows + self._last)


def _copy_tables(reading: Connection, writing: Connection, steps: _Steps) -> Mapping[str, int]:
    """Copies all rows, and returns their number by table. Raises `StorageError`."""
    copied = {}
    for table in COPIED:
        copied[table.name] = 0
        for batch in _copy_table(reading, writing, table):
            copied[table.name] += batch
            steps.add_copied(batch)
    return copied


def _copy_table(reading: Connection, writing: Connection, table: Table) -> Iterator[int]:
    """Copies the rows of a table, and yields the size of each batch."""
    values = Values(table, writing.dialect)
    target = CompiledStatement(insert(table), table.columns.keys())
    # As text, so that the driver's values arrive as they are: SQLAlchemy's conversion fails without naming the row.
    statement = str(select(table).order_by(*table.primary_key).compile(dialect=reading.dialect))
    options = {"stream_results": True, "max_row_buffer": _BATCH}
    for rows in reading.exec_driver_sql(statement, execution_options=options).partitions(_BATCH):
        target.execute(writing, values.checked(rows))
        yield len(rows)


@contextmanager
def _writing(url: URL) -> Iterator[Connection]:
    """Yields a transaction of the target, with the schema and without rows. If it fails, a file that was made for it is removed.

    Raises `ConfigError` and `StorageError`.
    """
    place, path = _place(url), path_of(url) if url.get_backend_name() == "sqlite" else None
    is_new = path is not None and not path.exists()
    engine = target_engine(url, place)
    try:
        with engine.begin() as connection:
            require_empty(connection, place)
            yield connection
    except BaseException:
        engine.dispose()
        if path is not None and is_new:
            _remove(path)
        raise
    engine.dispose()


def _remove(path: Path) -> None:
    """Removes the files of an SQLite database that this copy made."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _verified(writing: Connection, audit_key: bytes | None, steps: _Steps) -> Verification:
    """Checks the trail in the target. Raises `StorageError` if it does not pass."""
    report = verify(writing, Sealer(audit_key), progress=steps.set_checked)
    if report.changes_total:
        change = report.changes[0]
        what = change.what if change.row is None else f"row {change.row} {change.what}"
        raise StorageError(
            f"the trail does not pass the check, so nothing was copied: {what}; `toolcaddie audit verify` with the "
            "`--database-url` of the source shows all changes"
        )
    return report


def _require_equal(copied: Mapping[str, int], written: Mapping[str, int]) -> None:
    for table, rows in copied.items():
        if written[table] != rows:
            raise StorageError(f"table {table} has {written[table]} rows in the target, and {rows} were copied")


def _require_unchanged(before: Any, after: Any, place: str) -> None:
    if before != after:
        raise StorageError(
            f"{place}: another program has written to this database during the copy, so nothing was copied; stop it and copy "
            "again"
        )


def _url(text: str) -> URL:
    url = parse_url(text)
    KNOWN.add(url.password)
    if url.get_backend_name() == "sqlite" and path_of(url) is None:
        raise ConfigError(f"{text} is a database in memory, which ends with its process; name a file or a server")
    return url


def _place(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _is_same(one: URL, other: URL) -> bool:
    if one.get_backend_name() == other.get_backend_name() == "sqlite":
        return os.path.realpath(str(one.database)) == os.path.realpath(str(other.database))
    return one == other
