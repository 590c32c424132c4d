"""The database of a test, by the path at which its SQLite file would be.

With TOOLCADDIE_TEST_DATABASE=postgresql each path stands for a schema of a PostgreSQL server instead, so the same tests run over
both (`make test-postgresql`).
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, make_url
from sqlalchemy.exc import OperationalError

from tests import postgresql
from toolcaddie.storage.database import Database
from toolcaddie.storage.migrations import VERSION_TABLE

VARIABLES = ("TOOLCADDIE_TEST_DATABASE", "TOOLCADDIE_TEST_POSTGRESQL")
ON_POSTGRESQL = os.environ.get("TOOLCADDIE_TEST_DATABASE") == "postgresql"
KINDS = ("postgresql",) if ON_POSTGRESQL else ("file", "postgresql")
"""The kinds of databases over which a fixture runs a test twice."""

AS_MIGRATED: dict[str, Any] = {
    "version_table": VERSION_TABLE,
    # The partitions of the trail are not the code's to know.
    "include_name": lambda name, kind, _: kind != "table" or re.fullmatch(r"events_(first|\d+)", name) is None,
}
"""Options with which Alembic compares a database with the tables that the code uses."""

_schemas: dict[Path, str] = {}
"""The URLs of schemas by the path that they stand for."""
_servers = ExitStack()
_DEFAULT = Path("toolcaddie-data") / "toolcaddie.sqlite"


def database_url(path: Path) -> str:
    """The URL of the database for an SQLite file at `path`; the same path gives the same database until its test ends."""
    if not ON_POSTGRESQL:
        return f"sqlite:///{path}"
    place = path.absolute()
    if place not in _schemas:
        _schemas[place] = postgresql.make_schema(server())
    return _schemas[place]


def new_url() -> str:
    """The URL of a new database: in memory, or a schema."""
    return database_url(Path(uuid.uuid4().hex)) if ON_POSTGRESQL else "sqlite:///:memory:"


def home_url(home: Path) -> str:
    """The URL of the database that Toolcaddie uses by default in the folder `home`."""
    return database_url(home / _DEFAULT)


def home_environment(home: Path) -> dict[str, str]:
    """The variables of the environment with which a process in `home` uses `home_url(home)`, unless its settings name another
    database."""
    settings = home / "toolcaddie.toml"
    if not ON_POSTGRESQL or (settings.exists() and "database_url" in settings.read_text(errors="replace")):
        return {}
    is_new = (home / _DEFAULT).absolute() not in _schemas
    url = home_url(home)
    # A command that only looks finds it empty, as it does a default file that is not there. A key seals it from its beginning.
    if is_new and "TOOLCADDIE_AUDIT_KEY_ENV" not in os.environ:
        thread = threading.Thread(target=lambda: asyncio.run(_make_tables(url)))  # the test may have a loop of its own
        thread.start()
        thread.join()
    return {"TOOLCADDIE_DATABASE_URL": url}


async def _make_tables(url: str) -> None:
    async with Database(url):
        pass


def url_of_kind(request: pytest.FixtureRequest, path: Path) -> str:
    """The URL of a new database of the kind that a fixture with `params=KINDS` asks for."""
    return database_url(path) if request.param == "file" else str(request.getfixturevalue("postgresql_url"))


def change(url: str, *scripts: str) -> None:
    """Changes a database behind the back of Toolcaddie, in one transaction. In a script `;` ends a statement, and `{blob:00ff}`
    is a value of bytes."""
    engine = create_engine(url, poolclass=NullPool)
    blob = r"x'\1'" if engine.dialect.name == "sqlite" else r"'\\x\1'::bytea"
    with engine.begin() as connection:
        for script in scripts:
            for statement in re.sub(r"\{blob:(\w*)\}", blob, script).split(";"):
                if statement.strip():
                    connection.exec_driver_sql(_literal(url, statement))


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows that a statement finds in a database."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(_literal(url, statement))]


def _literal(url: str, statement: str) -> str:
    """A statement in which `%` is no place of a value, as the driver of PostgreSQL takes it."""
    return statement.replace("%", "%%") if url.startswith("postgresql") else statement


def content(url: str) -> bytes:
    """Everything that a database has stored, in which a test looks for what must not be there."""
    if not url.startswith("postgresql"):
        path = Path(url.removeprefix("sqlite:///"))
        return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    tables = rows(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    values = (value for (table,) in tables for row in rows(url, f"SELECT * FROM {table}") for value in row)
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


@contextmanager
def locked(url: str, *, patience: float = 5.0) -> Iterator[Callable[[], None]]:
    """Lets nobody else write a database. Yields a function that ends it, and may be called by another thread. Raises
    `OperationalError` if somebody else writes for longer than `patience`."""
    is_sqlite = make_url(url).get_backend_name() == "sqlite"
    options: dict[str, Any] = {"check_same_thread": False, "timeout": patience} if is_sqlite else {}
    with create_engine(url, poolclass=NullPool, connect_args=options).connect() as connection:
        if is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(f"SET lock_timeout = {round(patience * 1000)}")
            tables = connection.exec_driver_sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables.scalars())} IN EXCLUSIVE MODE")
        yield connection.rollback


def sqlite_only(reason: str) -> pytest.MarkDecorator:
    """Marks a test of something that only SQLite has; `reason` says what."""
    return pytest.mark.skipif(ON_POSTGRESQL, reason=f"only SQLite: {reason}")


@cache
def server() -> str:
    """The URL of a database of the server that all tests of this process share. It is started for the first one."""
    return _servers.enter_context(postgresql.server())


def forget(folder: Path) -> None:
    """Drops the schemas for paths in `folder`, except those that a process of the test still uses."""
    for path in [path for path in _schemas if path.is_relative_to(folder)]:
        with suppress(OperationalError):
            postgresql.drop_schema(_schemas[path])
            del _schemas[path]


def close() -> None:
    """Ends the server, and drops the schemas that are left on one that is not ours."""
    if postgresql.OWN_SERVER:
        forget(Path("/"))
    _servers.close()
    server.cache_clear()
