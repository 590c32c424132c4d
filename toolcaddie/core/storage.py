"""Values that the stores (`ports`) read and write: documents, log entries, rows of the trail, summaries of runs, API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from toolcaddie.core.control import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A value in a store of documents, and its key."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """Documents of one kind, in the order of their keys."""

    documents: Sequence[Document] = ()
    cursor: str | None = None
    """Cursor that continues the scan after the last document; None: there are no more documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """An entry of a stream. Positions count from 1 within the stream, without a gap."""

    position: int
    value: bytes


class SharedRows(list[dict[str, Any]]):
    """A list in the data of many records, the same object in all of them. A log may keep its stored form in `stored`, so that it
    is encoded once."""

    stored: Any = None


class EventRecord(Struct, frozen=True, kw_only=True):
    """A row of the trail, which records the events of all runs. `seq` counts within the run; `data` is JSON-compatible."""

    run_id: str
    seq: int
    at: float
    """Seconds since the epoch."""
    kind: str
    data: Mapping[str, Any]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run in a list of runs."""

    run_id: str
    started: float
    message: str
    status: str
    principal: str
    preset: str
    tenant: str = "default"
    bot: str | None = None
    calls: int = 0
    rounds: int = 0
    seconds: float | None = None
    owner: int | None = None
    """Number of the lease of the process that runs it; None: no process does."""

    @property
    def cursor(self) -> RunCursor:
        """The value for `RunQuery.before` that continues a list after this run."""
        return RunCursor(started=self.started, run_id=self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCursor:
    """A place in the list of runs. The newest run comes first; runs of the same moment are ordered by id."""

    started: float
    run_id: str | None = None
    """None: the place after all runs of that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A filter for the list of runs. A field that is None restricts nothing.

    RunQuery(tenant="acme", status="pending", limit=20)    # the first page
    RunQuery(tenant="acme", status="pending", limit=20, before=runs[-1].cursor)    # the next one
    """

    tenant: str | None = None
    principal: str | None = None
    bot: str | None = None
    status: str | None = None
    tool: str | None = None
    """Only runs that called this tool."""
    text: str | None = None
    """Only runs whose message contains this text; for ASCII letters, the case does not matter."""
    since: float | None = None
    """Only runs that started at this moment or later, in seconds since the epoch."""
    until: float | None = None
    """Only runs that started before this moment."""
    before: RunCursor | None = None
    """Only runs after this place in the list, that is, older runs."""
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
    """The first characters of the secret, so that a person can tell keys apart."""
    limits: Mapping[str, float | None] = field(default_factory=dict)
    """The limits that are the key's own, by their names in `KeyLimits`; None: without this limit, whatever the defaults say. A
    limit that is missing is that of the settings."""
