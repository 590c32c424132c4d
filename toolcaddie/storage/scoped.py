"""A store inside of another one: everything in it has keys that begin with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolcaddie.core.storage import DocumentPage, LogEntry
from toolcaddie.ports import Store
from toolcaddie.util.replacing import replace


class ScopedStore:
    """Implements `ports.Store` in the part of another store whose keys begin with `NAME/`. Keys may be that much shorter."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._prefix = f"{name}/"
        self.lease = store.lease
        self.holds = store.holds

    async def get(self, kind: str, key: str) -> bytes | None:
        return await self._store.get(kind, self._prefix + key)

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        values = await self._store.get_many(kind, [self._prefix + key for key in keys])
        return {self._bare(key): value for key, value in values.items()}

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
        await self._store.put(kind, self._prefix + key, value, ttl=ttl, urgent=urgent, owner=owner)

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        await self._store.put_many(kind, {self._prefix + key: value for key, value in values.items()}, ttl=ttl)

    async def compare_and_set(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        expected: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        return await self._store.compare_and_set(
            kind, self._prefix + key, value, expected=expected, ttl=ttl, owner=owner
        )

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        return await self._store.delete(kind, self._prefix + key, owner=owner)

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        page = await self._store.scan(kind, prefix=self._prefix + prefix, cursor=cursor, limit=limit)
        return replace(page, documents=[replace(each, key=self._bare(each.key)) for each in page.documents])

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        return await self._store.append(self._prefix + stream, values, owner=owner)

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        return await self._store.read(self._prefix + stream, after=after, limit=limit)

    def _bare(self, key: str) -> str:
        return key.removeprefix(self._prefix)
