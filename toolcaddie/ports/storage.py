"""Sockets of storage: the trail, documents, leases, caches and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.events import RunEvent


class EventSink(Protocol):
    async def emit(self, event: RunEvent) -> None: ...


class EventRecord(Struct, frozen=True, kw_only=True):
    """A row of the trail. `seq` counts within the run; `data` is JSON-compatible."""

    run_id: str
    seq: int
    at: float
    """Seconds since the epoch."""
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as a list shows it."""

    run_id: str
    started: float
    message: str
    status: str
    principal: str
    preset: str
    turns: int = 0
    rounds: int = 0
    seconds: float | None = None
    owner: int | None = None
    """The lease of the process that carries it on; None: nobody does."""


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

    async def runs(self, *, limit: int = 50) -> Sequence[RunSummary]:
        """Newest first."""
        ...


class Leases(Protocol):
    """Tells living processes from those that are gone. Each process owns a number that no other process ever had."""

    async def own(self) -> int:
        """The number of this process, taken on first use. After the lease was lost it is a new one."""
        ...

    async def holds(self, number: int) -> bool:
        """Whether the owner of that number is still living. Waits up to the lease's length, and some looks, to be sure.

        False only when the number can never write again: its open work is settled, and what it had claimed is free.
        """
        ...


class Documents(Protocol):
    """Small values under (kind, key): run states, what a conversation was sent, hidden parts of turns.

    With `owner`, a write happens only while that number holds its lease; otherwise it raises `StorageError`.
    """

    @property
    def leases(self) -> Leases:
        """The leases that `owner` refers to."""
        ...

    async def get(self, kind: str, key: str) -> bytes | None: ...
    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Those there are, by key, in no order; a key asked for twice counts once. Far cheaper than as many `get`."""
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
        """Durable on return. Not `urgent`: it may wait a moment for others to be written with it."""
        ...

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
        """Put `value` only where `before` is what is there now (None: nothing). Of several at once one gets True."""
        ...

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        """Durable on return, all of them or none. Far cheaper than as many `put`."""
        ...

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        """Whether there was one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLevel:
    """What a `CacheStore` holds now, and what left it so far without being asked for anew."""

    entries: int = 0
    bytes: int = 0
    evicted: int = 0
    """Pushed out by others while still good."""
    expired: int = 0


class CacheStore(Protocol):
    """Values under a key for a while. What is here may be gone at any time; an expired value is never returned."""

    async def get(self, key: str) -> bytes | None: ...
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        """Keep it for `ttl` seconds, more than 0. False: it is too large to be kept."""
        ...

    @property
    def level(self) -> CacheLevel: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key of the gateway's own; the secret itself is never kept, only its hash."""

    id: str
    name: str
    principal: Principal
    created: float
    revoked: float | None = None
    last_used: float | None = None
    hint: str = ""
    """The first characters, so that a person can tell keys apart."""


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
