"""Stores for files and chats of bots: each test of the contract runs over all kinds of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.databases import KINDS, url_of_kind
from toolcaddie.ports import Store
from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import MemoryStore


@pytest.fixture(params=["memory", *KINDS])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async with Database(url_of_kind(request, tmp_path / "store" / "data.sqlite")) as database:
        yield database.store


@pytest.fixture(params=KINDS)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """One database, opened twice, as two processes do."""
    url = url_of_kind(request, tmp_path / "store" / "data.sqlite")
    async with Database(url) as one, Database(url) as other:
        yield one.store, other.store
