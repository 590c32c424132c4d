"""Stored values: documents, log entries, rows of the trail, summaries of runs, API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from toolcaddie.core.control import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A value of a store and its key."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """Documents of one kind, in the order of their keys."""

    documents: Sequence[Document] = ()
    cursor: str | None = None
    """Continues the scan after the last document; None: there are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An entry of a stream. Positions count from 1 within the stream, without a gap."""

    position: int
    value: bytes


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
    """A run in a list of runs."""

    run_id: str
    started: float
    message: str
    status: str
    principal: str
    preset: str
    tenant: str = "default"
    calls: int = 0
    rounds: int = 0
    seconds: float | None = None
    owner: int | None = None
    """Lease of the process that continues it; None: no process does."""

    @property
    def cursor(self) -> RunCursor:
        """The value for `RunQuery.before` that continues a list after this run."""
        return RunCursor(started=self.started, run_id=self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCursor:
    """A place in the list of runs, which has the newest first and runs of the same moment by id."""

    started: float
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The runs of a list. A field that is None restricts nothing.

    RunQuery(tenant="acme", status="pending", limit=20)    # the first page
    RunQuery(tenant="acme", status="pending", limit=20, before=runs[-1].cursor)    # the next one
    """

    tenant: str | None = None
    principal: str | None = None
    status: str | None = None
    before: RunCursor | None = None
    """Only runs after this position of the list, that is, older ones."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLevel:
    """The size of a cache, and the number of evicted and expired values so far."""

    entries: int = 0
    bytes: int = 0
    evicted: int = 0
    """Values evicted before they expired."""
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key of the gateway; only the hash of its secret is stored."""

    id: str
    name: str
    principal: Principal
    created: float
    revoked: float | None = None
    last_used: float | None = None
    hint: str = ""
    """The first characters, so that a person can tell keys apart."""
