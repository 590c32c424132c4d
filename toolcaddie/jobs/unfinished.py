"""Counts the durable work of a database that has not ended, without DBOS and without changing anything.

See `engine` for the places of DBOS's tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Engine, bindparam, text
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import StorageError

UNFINISHED = ("ENQUEUED", "DELAYED", "PENDING")
"""DBOS's states of work that has not ended."""
_COUNT = "SELECT queue_name, count(*) FROM {} WHERE status IN {} GROUP BY queue_name"


def unfinished_work(url: URL, engine: Engine) -> Mapping[str, int]:
    """Returns the number of pieces of work that have not ended, by their kind. `engine`: connections to the database at
    `url`. Raises `StorageError`."""
    try:
        rows = (
            _rows_of_server(engine, schema_of(url))
            if url.get_backend_name() == "postgresql"
            else _rows_of_file(work_file(url))
        )
    except (sqlite3.Error, SQLAlchemyError) as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise StorageError(f"{url.render_as_string(hide_password=True)}: {reason}") from error
    return {kind: number for kind, number in rows if kind is not None}


def work_file(url: URL) -> Path:
    """Returns the file of DBOS's tables, beside an SQLite database."""
    return Path(f"{str(url.database).removesuffix('.sqlite')}.work.sqlite")


def schema_of(url: URL) -> str:
    """Returns the name of DBOS's schema beside that of our tables, which the options of a connection may name."""
    _, _, own = str(url.query.get("options", "")).partition("search_path=")
    return f"{own.split(',')[0].split()[0]}_dbos" if own else "dbos"


def _rows_of_file(path: Path) -> list[tuple[str | None, int]]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'workflow_status'").fetchone():
            return []
        return connection.execute(_COUNT.format("workflow_status", "(?, ?, ?)"), UNFINISHED).fetchall()


def _rows_of_server(engine: Engine, schema: str) -> list[tuple[str | None, int]]:
    table = f'"{schema}".workflow_status'
    with engine.connect() as connection:
        if connection.execute(text("SELECT to_regclass(:of_table)"), {"of_table": table}).scalar() is None:
            return []
        statement = text(_COUNT.format(table, ":states")).bindparams(bindparam("states", expanding=True))
        return [(kind, number) for kind, number in connection.execute(statement, {"states": UNFINISHED})]
