"""Interfaces (sockets, which plugins fill) for storage: the store of documents, sinks and logs of events, caches and API keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from toolcaddie.core.control import Principal
from toolcaddie.core.events import RunEvent
from toolcaddie.core.key_limits import Admission, Amounts, KeyLimits, KeyUsage, Reservation
from toolcaddie.core.storage import ApiKey, CacheLevel, DocumentPage, EventRecord, LogEntry, RunQuery, RunSummary


class Store(Protocol):
    """Documents under (kind, key), logs, and a lease: get, put, compare-and-set, delete, scan, append, lease.

    `toolcaddie.testing.store_contract` checks any implementation against this text.

    - A kind is up to 64 ASCII characters. A key is any text of up to 512 characters, NUL included;
      keys are ordered by code points. A value is any bytes.
    - A write is durable when it returns. `ttl`: seconds after which the document no longer exists for any method.
    - `owner`: a number returned by `lease`. The write happens only while that lease is held; afterwards it raises `StorageError`.
    - A store that cannot be read or written raises `StorageError`.
    """

    async def get(self, kind: str, key: str) -> bytes | None: ...

    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Returns the existing documents by key, in no order; a repeated key counts once. Far cheaper
        than the same number of `get`."""
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
        """Writes or overwrites a document. `urgent=False`: the write may wait a moment so that it
        is done together with other writes."""
        ...

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        """Writes all documents or none. Far cheaper than the same number of `put`."""
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
        """Writes `value` only if the current value is `expected` (None: no document).

        Of several callers at the same time, in any process, one gets True.
        """
        ...

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        """Deletes a document. Returns True if there was one."""
        ...

    async def scan(self, kind: str, *, prefix: str = "", cursor: str | None = None, limit: int = 100) -> DocumentPage:
        """Returns a page of the documents whose keys begin with `prefix`, by key. `cursor`: that of the previous page.

        A document that stays in the store during a whole scan is returned exactly once, whatever is written meanwhile.
        """
        ...

    async def append(self, stream: str, values: Sequence[bytes], *, owner: int | None = None) -> int:
        """Adds entries to the end of a log, in this order and without others between them. Returns the position of
        the last one.

        The name of a stream follows the rules of a key.
        """
        ...

    async def read(self, stream: str, *, after: int = 0, limit: int = 1_000) -> Sequence[LogEntry]:
        """Returns the entries after position `after`, in order. Once an entry was returned, none appears before it."""
        ...

    async def lease(self) -> int:
        """Returns the number of this process, taken on first use, renewed until the store is closed, and never reused.

        If the lease was lost, the next call returns a new number.
        """
        ...

    async def holds(self, number: int) -> bool:
        """Returns True while the owner of that number is alive. To be sure, it waits up to the length of a lease and
        looks several times.

        False only if the number can never write again.
        """
        ...


class EventSink(Protocol):
    """A receiver of the events of all runs, such as telemetry.

    It may have an attribute `takes`, the set of the classes of events that it receives; without it, it receives all. A sink that
    never waits may also have a property `receivers`, a function for each of these classes: an event is passed to the function of
    its class instead of `emit`, which costs less than a coroutine. It is not used for a subclass or an object that has an `emit`
    of its own.
    """

    async def emit(self, event: RunEvent) -> None: ...


class StorageWatch(Protocol):
    """Hears what a database does, such as metrics. Called in the thread that writes, so it must not wait."""

    def committed(self, seconds: float) -> None:
        """A transaction was written within so many seconds, with the time that it waited for locks."""
        ...

    def failed(self) -> None:
        """A transaction could not be written."""
        ...

    def trail_failed(self) -> None:
        """Rows of the trail could not be written; they stay in memory, and nothing runs until a later attempt has worked."""
        ...

    def lease_lost(self) -> None:
        """Other processes have taken this one for gone, and settled its runs."""
        ...


class EventLog(Protocol):
    """The trail: a durable, append-only log of the events of all runs. Raises `AuditError` if it cannot write."""

    def append(self, record: EventRecord) -> None:
        """Queues a row; rows are committed in groups, in order. Raises `AuditError` if an earlier write failed."""
        ...

    async def flush(self, run_id: str | None = None) -> None:
        """Waits until all appended rows are on disk. Raises `AuditError` if those of `run_id` may not be written any more."""
        ...

    def withdraw(self, record: EventRecord) -> None:
        """Withdraws an appended row, because the announced call will not happen.

        A row that is on disk, or is being written, stays: the caller then appends a row with the outcome.
        """
        ...

    async def events(self, run_id: str) -> Sequence[EventRecord]: ...
    async def records(self, run_ids: Sequence[str], kinds: Sequence[str]) -> Sequence[EventRecord]:
        """Returns the records of some kinds of many runs, the records of each run in the order written. Cheaper
        than the same number of `events`."""
        ...

    async def removed_before(self) -> float:
        """Returns the moment, in seconds since the epoch, before which all removed runs had started; 0.0: none was removed."""
        ...

    async def runs(self, query: RunQuery | None = None) -> Sequence[RunSummary]:
        """Returns runs, the newest first; runs of the same moment are ordered by id. `query` None: the newest 50 of all runs."""
        ...


class CacheStore(Protocol):
    """Values under a key for a limited time. Any value may be evicted at any time; an expired one is never returned."""

    async def get(self, key: str) -> bytes | None: ...
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        """Stores a value for `ttl` seconds, more than 0. False: it is too large."""
        ...

    @property
    def level(self) -> CacheLevel: ...


class KeyStore(Protocol):
    """API keys of the gateway. Only hashes of their secrets are stored."""

    async def add(
        self, name: str, principal: Principal, *, limits: Mapping[str, float | None] = ...
    ) -> tuple[ApiKey, str]:
        """Returns a new key and its secret, which cannot be read again. `limits`: see `ApiKey.limits`."""
        ...

    async def list(self) -> Sequence[ApiKey]: ...
    async def find(self, key_id: str) -> ApiKey | None:
        """Returns the key of that id, also a revoked one; None: there is none."""
        ...

    async def revoke(self, id_or_name: str) -> ApiKey:
        """Revokes a key. Raises `RequestError` if there is none."""
        ...

    async def limit(self, id_or_name: str, limits: Mapping[str, float | None]) -> ApiKey:
        """Replaces the key's own limits, see `ApiKey.limits`. Raises `RequestError` if there is no such key."""
        ...

    async def check(self, secret: str) -> ApiKey | None:
        """Returns the live key of that secret; None: unknown or revoked. The comparison takes
        the same time for every secret."""
        ...

    async def any(self) -> bool:
        """Returns True if a key was ever made, revoked ones included."""
        ...


class KeyMeter(Protocol):
    """Counts what API keys use, together with all processes that use the same database."""

    async def reserve(self, key_id: str, amounts: Amounts, limits: KeyLimits) -> Admission:
        """Counts the amounts in the present windows, if no limit of the key is exceeded by them. Of several callers at the same
        time, in any process, only as many are admitted as the limits allow."""
        ...

    def settle(self, reservation: Reservation, used: Amounts) -> None:
        """Replaces reserved amounts by those that were used, in the windows of the reservation. Returns at once."""
        ...

    def record(self, usage: KeyUsage) -> None:
        """Adds to the use of a key. Returns at once; it is written within about a second."""
        ...

    async def usage(self, *, first: str, last: str, key_id: str | None = None) -> Sequence[KeyUsage]:
        """Returns the use of all keys, or of one, from the day `first` to the day `last`, by day, key and model."""
        ...
