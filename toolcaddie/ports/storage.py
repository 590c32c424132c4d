"""Sockets of storage: the store with its seven verbs, and the trail, caches and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from toolcaddie.core.control import Principal
from toolcaddie.core.events import RunEvent
from toolcaddie.core.storage import ApiKey, CacheLevel, DocumentPage, EventRecord, LogEntry, RunQuery, RunSummary


class Store(Protocol):
    """Documents under (kind, key), logs, and a lease: get, put, compare-and-set, delete, scan, append, lease.

    `toolcaddie.testing.store_contract` checks all that is said here against any implementation.

    - A kind is up to 64 ASCII characters. A key is any text of up to 512 characters, in which NUL is a character like others;
      keys are ordered by code points. A value is any bytes.
    - A write is durable when it returns. `ttl`: seconds after which the document is gone for every verb.
    - `owner`: a number given by `lease`. The write happens only while that lease is held, and raises `StorageError` afterwards.
    - A store that cannot be read or written raises `StorageError`.
    """

    async def get(self, kind: str, key: str) -> bytes | None: ...

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Those there are, by key, in no order; a repeated key counts once. Far cheaper than as many `get`."""
        ...

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
        """Write a document over the one that is there. Not `urgent`: it may wait a moment for others to be written with it."""
        ...

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        """Write all of them or none. Far cheaper than as many `put`."""
        ...

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
        """Write `value` only if `expected` is there now (None: nothing). Of several callers at once, in any process, one
        gets True."""
        ...

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        """Whether there was one."""
        ...

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        """The documents whose keys begin with `prefix`, by key. `cursor`: that of the page before.

        A document that stays in the store during a whole scan is returned exactly once, whatever is written meanwhile.
        """
        ...

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        """Add entries to the end of a log, in this order, with nothing between them. Returns the position of the last.

        The name of a stream follows the rules of a key.
        """
        ...

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        """The entries behind position `after`, in order. Once an entry was returned, no entry appears before it."""
        ...

    async def lease(self) -> int:
        """The number of this process, taken on first use, renewed until the store is closed, and given to no other process
        ever. After the lease was lost it is a new one."""
        ...

    async def holds(self, number: int) -> bool:
        """Whether the owner of that number is still living. Waits up to the lease's length, and some looks, to be sure.

        False only when the number can never write again.
        """
        ...


class EventSink(Protocol):
    async def emit(self, event: RunEvent) -> None: ...


class EventLog(Protocol):
    """Durable, append-only. Raises `AuditError` when it cannot write."""

    def append(self, record: EventRecord) -> None:
        """Queue a row; rows are committed in groups, in order. Raises `AuditError` if an earlier write failed."""
        ...

    async def flush(self, run_id: str | None = None) -> None:
        """Return when all appended rows are on disk. Raises `AuditError` if those of `run_id` may not be written any more."""
        ...

    def withdraw(self, record: EventRecord) -> None:
        """Take back an appended row, because what it announces will not happen. A row that is on disk, or reaches it with a
        write that is under way, stays: whoever withdraws it appends one that says what became of it."""
        ...

    async def events(self, run_id: str) -> Sequence[EventRecord]: ...
    async def records(self, run_ids: Sequence[str], kinds: Sequence[str]) -> Sequence[EventRecord]:
        """Those of some kinds of many runs, of each run in the order written. Far cheaper than as many `events`."""
        ...

    async def runs(self, query: RunQuery | None = None) -> Sequence[RunSummary]:
        """The newest first, and runs of the same moment by id. None: the newest 50 of all."""
        ...


class CacheStore(Protocol):
    """Values under a key for a while. What is here may be gone at any time; an expired value is never returned."""

    async def get(self, key: str) -> bytes | None: ...
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        """Keep it for `ttl` seconds, more than 0. False: it is too large to be kept."""
        ...

    @property
    def level(self) -> CacheLevel: ...


class KeyStore(Protocol):
    async def add(self, name: str, principal: Principal) -> tuple[ApiKey, str]:
        """The new key and its secret, which is shown this once."""
        ...

    async def list(self) -> Sequence[ApiKey]: ...
    async def revoke(self, id_or_name: str) -> ApiKey:
        """Raises `RequestError` if there is none."""
        ...

    async def check(self, secret: str) -> ApiKey | None:
        """The live key of that secret; None: unknown or revoked. Constant time in the secret."""
        ...

    async def any(self) -> bool:
        """Whether a key was ever made, revoked ones included."""
        ...
