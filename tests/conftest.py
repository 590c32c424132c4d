"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import databases, postgresql

settings.register_profile("toolcaddie", deadline=None)  # a busy machine must not fail an example that is right
settings.load_profile("toolcaddie")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _databases_closed() -> Iterator[None]:
    for name in databases.VARIABLES:  # which are no settings of the processes that the tests start
        os.environ.pop(name, None)
    yield
    databases.close()


@pytest.fixture(autouse=True)
def _databases_dropped(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if (folder := request.node.funcargs.get("tmp_path")) is not None:
        databases.forget(folder)


@pytest.fixture(scope="session")
def postgresql_server() -> str:
    """A database of a server that is started for the first test that wants one."""
    return databases.server()


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """An empty schema of that database."""
    with postgresql.schema(postgresql_server) as url:
        yield url
