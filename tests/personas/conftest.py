"""Stores for files and chats of bots: each test of the contract runs over all kinds of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcaddie.ports import Store
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore


def _url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{folder}/data.sqlite"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with Database(_url(request, tmp_path / "store")) as database:
        yield database.store


@pytest.fixture(params=["sqlite", "postgresql"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """One database, opened twice, as two processes do."""
    url = _url(request, tmp_path / "store")
    async with Database(url) as one, Database(url) as other:
        yield one.store, other.store
