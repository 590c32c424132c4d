"""Reads the durable work of a database that has not ended, without DBOS and without changing anything.

See `engine` for the places of DBOS's tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, bindparam, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import StorageError

WAITING = ("ENQUEUED", "DELAYED")
"""DBOS's states of work that has not begun."""
UNFINISHED = (*WAITING, "PENDING")
"""DBOS's states of work that has not ended."""
_COUNT = "SELECT queue_name, count(*) FROM {} WHERE status IN :states GROUP BY queue_name"
_RUNNING = (
    "SELECT executor_id, workflow_uuid, queue_name, queue_partition_key, coalesce(started_at_epoch_ms, created_at),"
    " coalesce(recovery_attempts, 1) FROM {} WHERE status IN :states AND executor_id IS NOT NULL"
    " AND (CAST(:tenant AS TEXT) IS NULL OR queue_partition_key = :tenant) ORDER BY created_at LIMIT :most"
)
_WAITING = (
    "SELECT queue_name, queue_partition_key, count(*), min(created_at) FROM {} WHERE status IN :states"
    " AND (CAST(:tenant AS TEXT) IS NULL OR queue_partition_key = :tenant)"
    " GROUP BY queue_name, queue_partition_key ORDER BY min(created_at)"
)
Row = Sequence[Any]


def unfinished_work(url: URL, engine: Engine) -> Mapping[str, int]:
    """Returns the number of pieces of work that have not ended, by their kind. `engine`: connections to the database at
    `url`. Raises `StorageError`."""
    (rows,) = _rows(url, engine, (_COUNT, {"states": UNFINISHED}))
    return {kind: number for kind, number in rows if kind is not None}


def unfinished_pieces(
    url: URL, engine: Engine, *, tenant: str | None, most: int
) -> tuple[Sequence[Row], Sequence[Row]]:
    """Returns the pieces in progress, at most `most`: the lease of their process, id, kind, tenant, the moment at which it was
    begun, and how often. And what waits: kind, tenant, number, and the moment at which the oldest was put. Moments are in
    milliseconds since the epoch. `tenant` None: of all. Raises `StorageError`."""
    running, waiting = _rows(
        url,
        engine,
        (_RUNNING, {"states": ("PENDING",), "tenant": tenant, "most": most}),
        (_WAITING, {"states": WAITING, "tenant": tenant}),
    )
    return running, waiting


def work_file(url: URL) -> Path:
    """Returns the file of DBOS's tables, beside an SQLite database."""
    return Path(f"{str(url.database).removesuffix('.sqlite')}.work.sqlite")


def schema_of(url: URL) -> str:
    """Returns the name of DBOS's schema beside that of our tables, which the options of a connection may name."""
    _, _, own = str(url.query.get("options", "")).partition("search_path=")
    return f"{own.split(',')[0].split()[0]}_dbos" if own else "dbos"


def table_of(dialect: str, schema: str) -> str:
    """Returns the name of DBOS's table of work, for a statement."""
    return f'"{schema}".workflow_status' if dialect == "postgresql" else "workflow_status"


def _rows(url: URL, engine: Engine, *queries: tuple[str, Mapping[str, Any]]) -> Sequence[Sequence[Row]]:
    """Returns the rows of each query; none if there has never been durable work."""
    is_server = url.get_backend_name() == "postgresql"
    try:
        if is_server:
            return _rows_of_server(engine, schema_of(url), queries)
        return _rows_of_file(work_file(url), queries)
    except SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise StorageError(f"{url.render_as_string(hide_password=True)}: {reason}") from error


def _rows_of_file(path: Path, queries: Sequence[tuple[str, Mapping[str, Any]]]) -> Sequence[Sequence[Row]]:
    if not path.exists():
        return [()] * len(queries)
    engine = create_engine("sqlite://", creator=partial(_read_only, path), poolclass=NullPool)
    with engine.connect() as connection:
        there = "SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'"
        if connection.execute(text(there)).first() is None:
            return [()] * len(queries)
        return [_executed(connection, "sqlite", "", *query) for query in queries]


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _rows_of_server(
    engine: Engine, schema: str, queries: Sequence[tuple[str, Mapping[str, Any]]]
) -> Sequence[Sequence[Row]]:
    with engine.connect() as connection:
        named = {"of_table": table_of("postgresql", schema)}
        if connection.execute(text("SELECT to_regclass(:of_table)"), named).scalar() is None:
            return [()] * len(queries)
        return [_executed(connection, "postgresql", schema, *query) for query in queries]


def _executed(
    connection: Connection, dialect: str, schema: str, statement: str, values: Mapping[str, Any]
) -> Sequence[Row]:
    query = text(statement.format(table_of(dialect, schema))).bindparams(bindparam("states", expanding=True))
    return [tuple(row) for row in connection.execute(query, values)]
