from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text

from toolcaddie.storage.database import Database

POSTGRESQL = os.environ.get("TOOLCADDIE_TEST_POSTGRESQL", "")
"""A database of a PostgreSQL server, where the tests may make schemas: the same contract is then held over it too."""


class Clock:
    """A clock that goes only when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/toolcaddie.sqlite"


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    """An empty schema of the server's database, gone afterwards."""
    if not POSTGRESQL:
        pytest.skip("TOOLCADDIE_TEST_POSTGRESQL names no database")
    schema = f"toolcaddie_{uuid.uuid4().hex}"
    server = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with server.connect() as connection:
        connection.execute(text(f"create schema {schema}"))
    made = make_url(POSTGRESQL).update_query_dict({"options": f"-csearch_path={schema}"})
    yield made.render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"drop schema {schema} cascade"))
    server.dispose()


@pytest.fixture(params=["file", "memory", *(["postgresql"] if POSTGRESQL else [])])
async def database(request: pytest.FixtureRequest, file_url: str, clock: Clock) -> AsyncIterator[Database]:
    """The same contract over every kind of database."""
    match request.param:
        case "file":
            url = file_url
        case "memory":
            url = "sqlite:///:memory:"
        case _:
            url = request.getfixturevalue("postgresql_url")
    async with Database(url, clock=clock, steady=clock) as database:
        yield database
