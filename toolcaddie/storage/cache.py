"""Caches of values that may be lost: in the memory of one process, or in a store that several processes share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.storage import CacheLevel
from toolcaddie.parts import Parts
from toolcaddie.ports import Store
from toolcaddie.util.bounded import Bounded, Limit

MAX_SIZE = 10_000
"""Default of the largest number of values in memory."""
MAX_BYTES = 64 * 1024 * 1024
"""Default of the largest size in bytes of all values in memory."""

_SHARE = 8
"""A value may take at most an eighth of all bytes; a larger value would evict nearly all others."""

_Entry = tuple[bytes, float]
"""A value and the moment when it expires."""


class MemoryCache:
    """Implements `ports.CacheStore` for one process: at most `max_size` values, together at most `max_bytes`.

    The least recently used value is evicted first. `clock` returns seconds that never go back.
    """

    def __init__(
        self, *, max_size: int = MAX_SIZE, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if max_size < 1 or max_bytes < 1:
            raise ConfigError(f"a cache needs room: max_size {max_size} and max_bytes {max_bytes} must be 1 or more")
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: Bounded[str, _Entry] = Bounded(max_size, Limit(max_bytes, _size), on_eviction=self._count)
        self._evicted = self._expired = 0
        self._changing = threading.Lock()  # several threads may share the cache, each with a `run_sync` of its own

    @property
    def level(self) -> CacheLevel:
        with self._changing:
            (size,) = self._entries.totals
            return CacheLevel(entries=len(self._entries), bytes=size, evicted=self._evicted, expired=self._expired)

    async def get(self, key: str) -> bytes | None:
        """Returns the value of a key; None: there is none, or it has expired."""
        with self._changing:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, expiry = entry
            if expiry <= self._clock():
                self._entries.pop(key)
                self._count(entry)
                return None
            return value

    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        if len(value) * _SHARE > self._max_bytes:
            return False
        with self._changing:
            self._entries.put(key, (value, self._clock() + ttl))
        return True

    def _count(self, entry: _Entry) -> None:
        is_expired = entry[1] <= self._clock()
        self._expired += is_expired
        self._evicted += not is_expired


def _size(entry: _Entry) -> int:
    return len(entry[0])


class StoreCache:
    """Implements `ports.CacheStore` over documents of one kind, so that processes share results.

    The store removes expired values. A value may have at most `max_value_bytes`; the number of values is not limited and
    not counted, so `level` is always 0.
    """

    def __init__(self, documents: Store, *, kind: str = "cache", max_value_bytes: int = MAX_BYTES // _SHARE) -> None:
        self._documents = documents
        self._kind = kind
        self._max_value_bytes = max_value_bytes

    @property
    def level(self) -> CacheLevel:
        return CacheLevel()

    async def get(self, key: str) -> bytes | None:
        return await self._documents.get(self._kind, key)

    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        if len(value) > self._max_value_bytes:
            return False
        # Not urgent: if the process dies now, the tool is called once more and nothing else is lost.
        await self._documents.put(self._kind, key, value, ttl=ttl, urgent=False)
        return True


def database(*, parts: Parts) -> StoreCache:
    """Returns a cache in the host's store. Raises `ConfigError` if it has none."""
    if parts.store is None:
        raise ConfigError("the cache 'database' needs a store, and this host has none; use the cache 'memory'")
    return StoreCache(parts.store)
