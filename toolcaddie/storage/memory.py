"""Documents that last as long as the process, for a runtime without a database."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping


class OneProcess:
    """`ports.Leases` where nobody else can reach what is kept: this process lives as long as anybody asks."""

    async def own(self) -> int:
        return 1

    async def holds(self, number: int) -> bool:
        return number == 1


class MemoryDocuments:
    """Implements `ports.Documents`. Bounded to `size` values: the oldest go first."""

    def __init__(self, size: int = 10_000) -> None:
        self.leases = OneProcess()
        self._size = size
        self._values: OrderedDict[tuple[str, str], tuple[bytes, float]] = OrderedDict()

    async def get(self, kind: str, key: str) -> bytes | None:
        value, until = self._values.get((kind, key), (None, 0.0))
        return value if until > time.monotonic() else None

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        found = {key: await self.get(kind, key) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

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
        self._values[kind, key] = (value, time.monotonic() + (ttl if ttl is not None else float("inf")))
        self._values.move_to_end((kind, key))
        if len(self._values) > self._size:
            self._values.popitem(last=False)

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
        if await self.get(kind, key) != before:
            return False
        await self.put(kind, key, value, ttl=ttl)
        return True

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        for key, value in values.items():
            await self.put(kind, key, value, ttl=ttl)

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        return self._values.pop((kind, key), None) is not None
