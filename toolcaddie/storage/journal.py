"""The event log: rows are queued at once, written in groups, in order; nothing goes on unrecorded when writing fails."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, bindparam, insert, literal_column, select, true, update

from toolcaddie.core.errors import AuditError, StorageError
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.leases import DatabaseLeases, LeaseLostError
from toolcaddie.storage.packing import PACKED, packed, unpacked
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import events, runs
from toolcaddie.storage.upsert import upsert
from toolcaddie.storage.writer import Writer, outcome

QUEUE_LIMIT = 20_000
"""Rows that may wait; then `append` waits for room, and not for long."""

_HURRY_AT = 1_000
_NAMED_AT_ONCE = 500
_PATIENCE = 0.25
_RETRY_SECONDS = 1.0

_encode = msgspec.json.Encoder().encode


class Journal:
    """`ports.EventLog` on the database.

    A failed write keeps its rows, and every `append` and `flush` raises `AuditError` until a later attempt has written
    them: a full disk stops the runs, and making room carries on without a restart. An intent that was refused for that
    reason is withdrawn by its writer, so that it is not written afterwards.

    A run's row in `runs` follows from its records: `run_started` (`message`, `principal.id`, `preset`) makes it;
    `run_resumed`, `run_finished`, `run_paused` and `run_failed` (`status`, `turns`, `rounds`, `seconds`) update it. While a
    run goes on the row names its owner. What was begun under a lease that is lost is written no more: its rows are dropped,
    and `append` and `flush` raise `AuditError` for its runs.
    """

    def __init__(
        self, writer: Writer, reader: Reader, leases: DatabaseLeases, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._leases = leases
        self._under_way: dict[str, int] = {}
        """The runs that this process carries on, and the generation of the lease each was begun in."""
        self._clock = clock
        self._lines: deque[_Line] = deque()
        """Not known to be on disk; the ones being written are the first."""
        self._writing = 0
        """How many of the first lines are being written now."""
        self._withdrawn: list[_Line] = []
        """Taken back while they were being written: dropped if that write fails."""
        self._next: Future[int] | None = None
        """The write that is queued and has not begun; at most one, so that no line is written twice."""
        self._failure: StorageError | None = None
        self._failed_at = 0.0
        self._changed = threading.Condition()

    def append(self, record: EventRecord) -> None:
        with self._changed:
            line = _line(record, self._generation(record))
            if self._failure is not None:
                if record.kind in _OWED or record.data.get("error") == "not_run":
                    self._lines.append(line)
                self._try_again()
                raise _audit_error(self._failure)
            self._wait_for_room()
            self._lines.append(line)
            self._schedule(urgent=len(self._lines) >= _HURRY_AT)

    async def flush(self, run_id: str | None = None) -> None:
        with self._changed:
            waits = bool(self._lines) or self._failure is not None
            written = self._schedule(urgent=True) if waits else None
        if written is not None:
            try:
                await outcome(written)
            except StorageError as error:
                raise _audit_error(error) from error
        if run_id is not None and self._is_lost(run_id):
            raise _audit_error(LeaseLostError())

    def withdraw(self, record: EventRecord) -> None:
        with self._changed:
            place = next((n for n, line in enumerate(self._lines) if line.is_of(record)), None)
            if place is None:
                return
            if place < self._writing:
                self._withdrawn.append(self._lines[place])
            else:
                del self._lines[place]
                self._changed.notify_all()

    async def events(self, run_id: str) -> Sequence[EventRecord]:
        """All records of a run, oldest first; what is queued is written first, if it can be."""
        await self._settled()
        rows = await self._reader.all(select(events).where(events.c.run_id == run_id).order_by(events.c.id))
        return [_record(row) for row in rows]

    async def records(self, run_ids: Sequence[str], kinds: Sequence[str]) -> Sequence[EventRecord]:
        """In steps, because databases limit how many values a statement may name."""
        await self._settled()
        found: list[EventRecord] = []
        for start in range(0, len(run_ids), _NAMED_AT_ONCE):
            some = events.c.run_id.in_(run_ids[start : start + _NAMED_AT_ONCE]) & events.c.kind.in_(kinds)
            found.extend(map(_record, await self._reader.all(select(events).where(some).order_by(events.c.id))))
        return found

    async def runs(self, query: RunQuery | None = None) -> Sequence[RunSummary]:
        await self._settled()
        return [RunSummary(**row._mapping) for row in await self._reader.all(_listed(query or RunQuery()))]

    async def close(self) -> None:
        """Write what is queued. Raises `AuditError`, saying how much is lost, if that cannot be done."""
        try:
            await self.flush()
        except AuditError as error:
            raise AuditError(f"{len(self._lines)} rows of the trail are lost: {error}") from error

    async def _settled(self) -> None:
        """What is on disk can be read on a day when nothing can be written."""
        with contextlib.suppress(AuditError):
            await self.flush()

    def _generation(self, record: EventRecord) -> int:
        """The lease under which a record is written. Raises `AuditError` where that of its run is lost."""
        generation = self._leases.generation
        if record.kind in _BEGINS:
            self._under_way[record.run_id] = generation
            return generation
        find = self._under_way.pop if record.kind in _ENDS else self._under_way.get
        if find(record.run_id, generation) != generation:
            raise _audit_error(LeaseLostError())
        return generation

    def _is_lost(self, run_id: str) -> bool:
        return self._under_way.get(run_id, self._leases.generation) != self._leases.generation

    def _schedule(self, *, urgent: bool) -> Future[int]:
        if self._next is None:
            try:
                written = self._writer.submit(self._write, urgent=urgent)
            except StorageError as error:
                raise _audit_error(error) from error
            self._next = written
            written.add_done_callback(self._settle)
        elif urgent:
            self._writer.hurry()
        return self._next

    def _write(self, connection: Connection) -> int:
        """Writes every line there is (in the writer's thread); the answer is their number."""
        with self._changed:
            self._next = None
            lines = tuple(self._lines)
            self._writing = len(lines)
        if lines:
            owner = self._leases.check(connection)
            lines_of_now = [line for line in lines if line.generation == self._leases.generation]
            if lines_of_now:
                _INSERT.execute(connection, [line.event for line in lines_of_now])
                _change_runs(connection, lines_of_now, owner)
        return len(lines)

    def _settle(self, written: Future[int]) -> None:
        """After the commit, or after it failed (in the writer's thread)."""
        failure = written.exception()
        with self._changed:
            self._writing = 0
            withdrawn, self._withdrawn = self._withdrawn, []
            if failure is None:
                if written.result():
                    self._leases.committed()
                for _ in range(written.result()):
                    self._lines.popleft()
                self._failure = None
            else:
                self._lines = deque(line for line in self._lines if line not in withdrawn)
                self._next = None if self._next is written else self._next
                self._failure = failure if isinstance(failure, StorageError) else StorageError(repr(failure))
                self._failed_at = self._clock()
            self._changed.notify_all()

    def _try_again(self) -> None:
        if self._next is None and self._clock() - self._failed_at >= _RETRY_SECONDS:
            self._schedule(urgent=True)

    def _wait_for_room(self) -> None:
        if len(self._lines) < QUEUE_LIMIT:
            return
        self._writer.hurry()
        if not self._changed.wait_for(lambda: len(self._lines) < QUEUE_LIMIT, timeout=_PATIENCE):
            raise AuditError(f"the trail cannot keep up: {QUEUE_LIMIT} rows wait to be written; the disk is too slow")


_INSERT = CompiledStatement(insert(events), ("run_id", "seq", "at", "kind", "data"))
_BEGINS = frozenset({"run_started", "run_resumed"})
_ENDS = frozenset({"run_finished", "run_paused", "run_failed"})
_OWED = _ENDS | {"call_unknown"}
"""Kept also while nothing can be written: it happened, and a run that has ended must not look as if it went on."""

_ENDING = ("status", "turns", "rounds", "seconds")
"""What the end of a run changes in its row, as far as the record says it."""


class _Line(msgspec.Struct, frozen=True, eq=False):
    """An event as the table takes it, and what it changes in the row of its run: the whole row, or some columns of it."""

    event: Mapping[str, Any]
    generation: int
    """The lease it belongs to."""
    started: Mapping[str, Any] | None = None
    ended: Mapping[str, Any] | None = None
    goes_on: bool = False
    """Its process owns the run from here on."""

    def is_of(self, record: EventRecord) -> bool:
        event = self.event
        return (event["run_id"], event["seq"], event["kind"]) == (record.run_id, record.seq, record.kind)


def _line(record: EventRecord, generation: int) -> _Line:
    event = {
        "run_id": record.run_id,
        "seq": record.seq,
        "at": record.at,
        "kind": record.kind,
        "data": _encode(packed(record.data) if record.kind == PACKED else record.data).decode(),
    }
    if record.kind == "run_started":
        return _Line(event, generation, started=_started(record))
    if record.kind in _ENDS or record.kind in _BEGINS:
        changes = {name: record.data[name] for name in _ENDING if name in record.data}
        return _Line(event, generation, ended=changes, goes_on=record.kind in _BEGINS)
    return _Line(event, generation)


def _listed(query: RunQuery) -> Select[Any]:
    listed = select(runs).order_by(runs.c.started.desc(), runs.c.run_id).limit(query.limit)
    for name in ("tenant", "principal", "status"):
        if (value := getattr(query, name)) is not None:
            listed = listed.where(runs.c[name] == value)
    if (before := query.before) is not None:
        same_moment = (runs.c.started == before.started) & (runs.c.run_id > before.run_id)
        listed = listed.where((runs.c.started < before.started) | same_moment)
    return listed


def _record(row: Row[Any]) -> EventRecord:
    data = msgspec.json.decode(row.data)
    data = unpacked(data) if row.kind == PACKED else data
    return EventRecord(run_id=row.run_id, seq=row.seq, at=row.at, kind=row.kind, data=data)


def _started(record: EventRecord) -> Mapping[str, Any]:
    principal = record.data.get("principal", {})
    return {
        "run_id": record.run_id,
        "started": record.at,
        "message": record.data.get("message", ""),
        "status": "running",
        "principal": principal.get("id", ""),
        "tenant": principal.get("tenant", "default"),
        "preset": record.data.get("preset", ""),
        "turns": 0,
        "rounds": 0,
        "seconds": None,
    }


def _change_runs(connection: Connection, lines: Sequence[_Line], owner: int) -> None:
    """Starts before ends, as in every run; one statement for all that change the same columns, in their order."""
    if started := [{**line.started, "owner": owner} for line in lines if line.started]:
        upsert(connection, runs, started)
    ended = (line for line in lines if line.ended)
    for (columns, goes_on), group in groupby(ended, key=lambda line: (tuple(line.ended or ()), line.goes_on)):
        _ending(columns, goes_on).execute(connection, [_of_run(line, owner) for line in group])


def _of_run(line: _Line, owner: int) -> dict[str, Any]:
    changes = {f"new_{name}": value for name, value in (line.ended or {}).items()}
    by = {"new_owner": owner} if line.goes_on else {"new_owner": None, "by": owner}
    return {**changes, **by, "of_run": line.event["run_id"]}


@cache
def _ending(columns: tuple[str, ...], goes_on: bool) -> CompiledStatement:
    waits = runs.c.owner.is_(None) & (runs.c.status == literal_column("'pending'"))
    # Nobody ends what another process carries on, or has ended meanwhile. Who resumes a run holds the claim on it.
    ours = true() if goes_on else (runs.c.owner == bindparam("by")) | waits
    changes: dict[str, Any] = {column: bindparam(f"new_{column}") for column in (*columns, "owner")}
    return CompiledStatement(update(runs).where(runs.c.run_id == bindparam("of_run"), ours).values(changes))


def _audit_error(error: StorageError) -> AuditError:
    return AuditError(f"the trail cannot be written, so nothing may run: {error}")
