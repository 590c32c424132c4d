from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcaddie.storage.database import Database


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


@pytest.fixture(params=["file", "memory", "postgresql"])
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
