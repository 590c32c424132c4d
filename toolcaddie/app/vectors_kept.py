"""Documents for commands that open no database otherwise: each call opens the settings' one and closes it again, because such
a command asks for the vectors of its catalog once and is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolcaddie.storage.database import Database
from toolcaddie.storage.memory import OneProcess


class DocumentsOnDemand:
    """Implements `ports.Documents` over the database at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.leases = OneProcess()  # nothing is run here, so nothing is owned

    async def get(self, kind: str, key: str) -> bytes | None:
        async with Database(self._url) as database:
            return await database.documents.get(kind, key)

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        async with Database(self._url) as database:
            return await database.documents.get_many(kind, keys)

    async def put(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        urgent: bool = True,
        owner: int | None = None,
    ) -> None:
        async with Database(self._url) as database:
            await database.documents.put(kind, key, value, ttl=ttl, urgent=urgent, owner=owner)

    async def swap(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        before: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        async with Database(self._url) as database:
            return await database.documents.swap(kind, key, value, before=before, ttl=ttl, owner=owner)

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        async with Database(self._url) as database:
            await database.documents.put_many(kind, values, ttl=ttl)

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        async with Database(self._url) as database:
            return await database.documents.delete(kind, key, owner=owner)
