from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.databases import KINDS, database_url, url_of_kind
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
    return database_url(tmp_path / "data/toolcaddie.sqlite")


@pytest.fixture(params=["memory", *KINDS])
async def database(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    """The same contract over every kind of database."""
    url = "sqlite:///:memory:" if request.param == "memory" else url_of_kind(request, tmp_path / "data.sqlite")
    async with Database(url, clock=clock, steady=clock) as database:
        yield database
