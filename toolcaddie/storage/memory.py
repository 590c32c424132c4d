"""A store that lives as long as the process, for a runtime without a database."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from toolcaddie.core.errors import StorageError
from toolcaddie.core.storage import Document, DocumentPage, LogEntry
from toolcaddie.storage.names import check_key, check_kind
from toolcaddie.util.bounded import Bounded

_NUMBER = 1
"""Number of the only lease. No other process can reach the store, and this process is alive while the store is used."""


class MemoryStore:
    """Implements `ports.Store`. Holds at most `size` documents: those written first are evicted first. Logs are not limited.

    `clock` returns seconds that never go back.
    """

    def __init__(self, size: int = 10_000, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._documents: Bounded[tuple[str, str], tuple[bytes, float]] = Bounded(size)
        """(kind, key) -> value and moment of expiry, in the order of writing. Reading a document does not change the order."""
        self._streams: defaultdict[str, list[bytes]] = defaultdict(list)

    async def get(self, kind: str, key: str) -> bytes | None:
        return self._live(kind, key)

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        values = {key: self._live(kind, key) for key in keys}
        return {key: value for key, value in values.items() if value is not None}

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
        _require_lease(owner)
        self._write(kind, key, value, ttl)

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        for key in values:
            check_key(key)
        for key, value in values.items():
            self._write(kind, key, value, ttl)

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
        _require_lease(owner)
        if self._live(kind, key) != expected:
            return False
        self._write(kind, key, value, ttl)
        return True

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        _require_lease(owner)
        existed = self._live(kind, key) is not None
        self._documents.pop((kind, key))
        return existed

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        """Returns a page of the documents of a kind in the order of their keys. `cursor`: the last key of the previous page."""
        keys = sorted(
            key
            for of_kind, key in self._documents
            if of_kind == kind and key.startswith(prefix) and (cursor is None or key > cursor)
        )
        live = [(key, value) for key in keys if (value := self._live(kind, key)) is not None]
        page = [Document(key=key, value=value) for key, value in live[:limit]]
        return DocumentPage(documents=page, cursor=page[-1].key if len(live) > limit else None)

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        _require_lease(owner)
        check_key(stream)
        self._streams[stream].extend(values)
        return len(self._streams[stream])

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        values = self._streams.get(stream, [])[after : after + limit]
        return [LogEntry(position=position, value=value) for position, value in enumerate(values, start=after + 1)]

    async def lease(self) -> int:
        return _NUMBER

    async def holds(self, number: int) -> bool:
        return number == _NUMBER

    def _live(self, kind: str, key: str) -> bytes | None:
        check_key(key)
        value, expiry = self._documents.peek((kind, key)) or (None, 0.0)
        return value if expiry > self._clock() else None

    def _write(self, kind: str, key: str, value: bytes, ttl: float | None) -> None:
        check_kind(kind)
        check_key(key)
        self._documents.put((kind, key), (value, self._clock() + (ttl if ttl is not None else float("inf"))))


def _require_lease(owner: int | None) -> None:
    if owner not in (None, _NUMBER):
        raise StorageError(
            f"number {owner} holds no lease; the only lease of a store in memory is {_NUMBER}, as `lease` returns it"
        )
