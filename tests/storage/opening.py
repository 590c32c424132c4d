"""How other processes open the stores of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcaddie.ports import Store
from toolcaddie.storage.database import Database

LEASE = 1.0
"""Short, so that a test does not wait long for a killed process; long enough for a machine that is busy."""


@asynccontextmanager
async def database_store(url: str) -> AsyncIterator[Store]:
    async with Database(url, lease=LEASE) as database:
        yield database.store
