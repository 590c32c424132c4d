"""Fixtures for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import postgresql

settings.register_profile("toolcaddie", deadline=None)  # a busy machine must not fail an example that is right
settings.load_profile("toolcaddie")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A database of a server that is started for the first test that wants one."""
    with postgresql.server() as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """An empty schema of that database."""
    with postgresql.schema(postgresql_server) as url:
        yield url
