"""The event log, which stores the audit trail in the database.

Rows are queued at once and written in order, in groups. No run continues if writing fails.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, func, select

from toolcaddie.core.errors import AuditError, RunTakenError, StorageError
from toolcaddie.core.fencing import set_fence
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import StorageWatch
from toolcaddie.storage.chain import Chain
from toolcaddie.storage.groups import Group, opening, write_group
from toolcaddie.storage.leases import DatabaseLeases, LeaseLostError
from toolcaddie.storage.packing import PACKED, packed, unpacked
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.run_changes import ENDING, RunChange, sorted_changes
from toolcaddie.storage.run_queries import select_runs
from toolcaddie.storage.run_tools import CALLS, CalledTool, tools_in
from toolcaddie.storage.tables import events, prunings
from toolcaddie.storage.watch import UNWATCHED
from toolcaddie.storage.writer import Writer, outcome

QUEUE_LIMIT = 20_000
"""Largest number of queued rows. If it is reached, `append` waits briefly for room."""

HURRY_AT = 1_000
"""Number of queued rows from which they are written without further delay."""
_IDS_AT_ONCE = 500
"""Number of run ids in one statement, below the limit of parameters of every database."""
_PATIENCE = 0.25
"""Seconds for which `append` waits for room in the queue."""
_RETRY_SECONDS = 1.0
"""Shortest time in seconds between a failed write and the next attempt."""

_LAST_CUTOFF = select(func.max(prunings.c.cutoff).label("cutoff"))
_encode = msgspec.json.Encoder().encode


class Journal:
    """Implements `ports.EventLog` on the database.

    After a failed write its rows stay queued, and every `append` and `flush` raises `AuditError` until a later attempt has
    written them: a full disk stops the runs, and once there is space again, runs can start without a restart. A caller whose
    intent to call a tool could not be written withdraws it, so that it is not written later.

    A run's row in `runs` follows from its records: `run_started` (`message`, `principal.id`, `preset`) inserts it;
    `run_resumed`, `run_finished`, `run_paused` and `run_failed` (`status`, `calls`, `rounds`, `seconds`) update it. The row
    names its owner while the run continues. Rows of runs that began under a lost lease are dropped, and `append` and
    `flush` raise `AuditError` for these runs.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        leases: DatabaseLeases,
        chain: Chain,
        *,
        watch: StorageWatch = UNWATCHED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chain = chain
        self._watch = watch
        self._writer = writer
        self._reader = reader
        self._leases = leases
        self._under_way: dict[str, int] = {}
        """Id of a run of this process -> the lease generation in which the run began or was resumed."""
        self._resumed: set[str] = set()
        """Ids of the runs under way that this process resumed."""
        self._starts: dict[str, float] = {}
        """Id of a run under way that this process began -> its start."""
        self._clock = clock
        self._lines: deque[_Line] = deque()
        """Lines that may not be on disk yet; the first ones are being written."""
        self._writing = 0
        """Number of lines, from the first one on, that are being written now."""
        self._withdrawn: list[_Line] = []
        """Lines withdrawn while being written: dropped if that write fails."""
        self._next: Future[int] | None = None
        """The queued write that has not begun; at most one, so that no line is written twice."""
        self._failure: StorageError | None = None
        self._failed_at = 0.0
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        """Notified under the lock when a write has ended. To take the lock itself is faster, as each row does."""

    @property
    def waiting(self) -> int:
        """Number of rows that may not be on disk yet."""
        return len(self._lines)

    async def check(self) -> None:
        """Raises `AuditError` if rows cannot be written, for example because another key seals the trail."""
        try:
            await outcome(self._writer.submit(self._chain.lock, last=True))
        except StorageError as error:
            raise _audit_error(error) from error

    def append(self, record: EventRecord) -> None:
        """Queues a record to be written. Raises `AuditError` if writing fails at the moment, or if the run began under a lost
        lease."""
        with self._lock:
            is_shared = self._is_shared(record)
            line = _line(record, self._generation(record), is_shared=is_shared, tools=self._tools(record))
            if self._failure is not None:
                if record.kind in _ALWAYS_KEPT or record.data.get("error") == "not_run":
                    self._lines.append(line)
                self._retry()
                raise _audit_error(self._failure)
            if len(self._lines) >= QUEUE_LIMIT:
                self._wait_for_room()
            self._lines.append(line)
            urgent = len(self._lines) >= HURRY_AT
            if urgent or self._next is None:
                self._schedule(urgent=urgent)

    async def flush(self, run_id: str | None = None) -> None:
        """Waits until all queued rows are on disk. Raises `AuditError` if they cannot be written, or if the run `run_id` began
        under a lease that is lost, or may be: the process may have been stopped since its rows were written."""
        with self._changed:
            is_pending = bool(self._lines) or self._failure is not None
            write = self._schedule(urgent=True) if is_pending else None
        if write is not None:
            try:
                await outcome(write)
            except StorageError as error:
                raise _audit_error(error) from error
        if run_id is not None:
            self._stand(run_id)
            set_fence(partial(self._stand, run_id))

    def withdraw(self, record: EventRecord) -> None:
        """Removes a queued record, so that it is not written later."""
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
        """Returns all records of a run, oldest first. Writes the queue before, if it can be written."""
        await self.flush_if_possible()
        rows = await self._reader.all(select(events).where(events.c.run_id == run_id).order_by(events.c.id))
        return [record_of(row) for row in rows]

    async def records(self, run_ids: Sequence[str], kinds: Sequence[str]) -> Sequence[EventRecord]:
        """Returns the records of some kinds of many runs, read in steps because databases limit a statement's parameters."""
        await self.flush_if_possible()
        records: list[EventRecord] = []
        for start in range(0, len(run_ids), _IDS_AT_ONCE):
            condition = events.c.run_id.in_(run_ids[start : start + _IDS_AT_ONCE]) & events.c.kind.in_(kinds)
            records.extend(
                map(record_of, await self._reader.all(select(events).where(condition).order_by(events.c.id)))
            )
        return records

    async def removed_before(self) -> float:
        rows = await self._reader.all(_LAST_CUTOFF)
        return float(rows[0].cutoff or 0.0)

    async def runs(self, query: RunQuery | None = None) -> Sequence[RunSummary]:
        await self.flush_if_possible()
        return [RunSummary(**row._mapping) for row in await self._reader.all(select_runs(query or RunQuery()))]

    async def close(self) -> None:
        """Writes the queue. Raises `AuditError` with the number of lost rows if that fails."""
        try:
            await self.flush()
        except AuditError as error:
            raise AuditError(f"{len(self._lines)} rows of the trail are lost: {error}") from error

    async def flush_if_possible(self) -> None:
        """Writes the queue, or leaves it: rows on disk can be read even when nothing can be written."""
        with contextlib.suppress(AuditError):
            await self.flush()

    def _generation(self, record: EventRecord) -> int:
        """Returns the current lease generation. Raises `AuditError` if the record's run began in an earlier one."""
        generation = self._leases.generation
        if record.kind in _BEGINS:
            self._under_way[record.run_id] = generation
            return generation
        lookup = self._under_way.pop if record.kind in _ENDS else self._under_way.get
        if lookup(record.run_id, generation) != generation:
            raise _audit_error(LeaseLostError())
        return generation

    def _tools(self, record: EventRecord) -> tuple[CalledTool, ...]:
        """Returns the tools that a record says were called."""
        if record.kind in CALLS:
            started = self._starts.get(record.run_id)
        elif record.kind in _ENDS:
            started = self._starts.pop(record.run_id, None)
        else:
            if record.kind == "run_started":
                self._starts[record.run_id] = record.at
            return ()
        return tuple([CalledTool(record.run_id, name, started) for name in tools_in(record)])

    def _is_shared(self, record: EventRecord) -> bool:
        """Returns True if other processes may write rows of the record's run: the run has paused before, or pauses now."""
        if record.kind == "run_resumed":
            self._resumed.add(record.run_id)
        is_shared = record.kind in _SHARED or record.run_id in self._resumed
        if record.kind in _ENDS:
            self._resumed.discard(record.run_id)
        return is_shared

    def _stand(self, run_id: str) -> None:
        """Raises `RunTakenError` if the run began under a lease that is lost, or may be. May be called in any thread."""
        generation = self._leases.generation
        if self._under_way.get(run_id, generation) != generation or not self._leases.is_fresh():
            raise _audit_error(LeaseLostError())

    def _schedule(self, *, urgent: bool) -> Future[int]:
        """Returns the future of the next write of the queue, which is submitted if none is waiting. `urgent`: the write must not
        wait for more rows."""
        if self._next is None:
            try:
                # It locks the head of the chain, for which other processes wait, so it comes last in its transaction.
                write = self._writer.submit(self._write, urgent=urgent, last=True)
            except StorageError as error:
                raise _audit_error(error) from error
            self._next = write
            write.add_done_callback(self._finish_write)
        elif urgent:
            self._writer.hurry()
        return self._next

    def _write(self, connection: Connection) -> int:
        """Writes all queued lines and returns their number. Runs in the writer's thread."""
        with self._changed:
            self._next = None
            lines = tuple(self._lines)
            self._writing = len(lines)
        if lines:
            opened = opening(connection, self._leases.number)
            owner = self._leases.check(connection, exists=opened.lease_exists)
            current_lines = [line for line in lines if line.generation == self._leases.generation]
            if current_lines:
                group = Group(
                    rows=self._numbered(connection, current_lines),
                    changes=sorted_changes([line.change for line in current_lines if line.change], owner),
                    tools=[tool for line in current_lines for tool in line.tools],
                    owner=owner,
                )
                write_group(connection, group, self._chain, self._chain.lock(connection, opened.head))
        return len(lines)

    def _numbered(self, connection: Connection, lines: Sequence[_Line]) -> Sequence[Mapping[str, Any]]:
        """Returns the rows of lines. If another process may have written rows of the same run meanwhile, the rows of that run get
        the numbers that follow the last one on disk."""
        shared = sorted({line.event["run_id"] for line in lines if line.is_shared})
        if not shared:
            return [line.event for line in lines]
        self._chain.lock(connection)  # until the transaction ends, no other process can write a row
        last = dict.fromkeys(shared, 0)
        for start in range(0, len(shared), _IDS_AT_ONCE):
            found = connection.execute(_LAST, {"run_ids": shared[start : start + _IDS_AT_ONCE]})
            last.update((row.run_id, row.last) for row in found)
        rows = []
        for line in lines:
            row = line.event
            if (run_id := row["run_id"]) in last:
                last[run_id] = max(row["seq"], last[run_id] + 1)
                row = {**row, "seq": last[run_id]}
            rows.append(row)
        return rows

    def _finish_write(self, write: Future[int]) -> None:
        """Updates the queue after a write has succeeded or failed. Runs in the writer's thread."""
        failure = write.exception()
        with self._changed:
            self._writing = 0
            withdrawn, self._withdrawn = self._withdrawn, []
            if failure is None:
                if write.result():
                    self._leases.committed()
                for _ in range(write.result()):
                    self._lines.popleft()
                self._failure = None
            else:
                self._lines = deque(line for line in self._lines if line not in withdrawn)
                self._next = None if self._next is write else self._next
                self._failure = failure if isinstance(failure, StorageError) else StorageError(repr(failure))
                self._failed_at = self._clock()
                self._watch.trail_failed()
            self._changed.notify_all()

    def _retry(self) -> None:
        if self._next is None and self._clock() - self._failed_at >= _RETRY_SECONDS:
            self._schedule(urgent=True)

    def _wait_for_room(self) -> None:
        self._writer.hurry()
        if not self._changed.wait_for(lambda: len(self._lines) < QUEUE_LIMIT, timeout=_PATIENCE):
            raise AuditError(f"the trail cannot keep up: {QUEUE_LIMIT} rows wait to be written; the disk is too slow")


_BEGINS = frozenset({"run_started", "run_resumed"})
"""Kinds of records with which a process begins to own a run."""
_ENDS = frozenset({"run_finished", "run_paused", "run_failed"})
"""Kinds of records with which a process ends its ownership of a run."""
_SHARED = frozenset({"run_resumed", "run_paused", "approval_closed", "call_settled"})
"""Kinds of records beside which other processes may write rows of the same run: they answer its questions, or resume it."""
_LAST = (
    select(events.c.run_id, func.max(events.c.seq).label("last"))
    .where(events.c.run_id.in_(bindparam("run_ids", expanding=True)))
    .group_by(events.c.run_id)
)
_ALWAYS_KEPT = _ENDS | {"call_unknown"}
"""Kinds queued even while nothing can be written: they happened, and an ended run must not look as if it continued."""

_OLDER_NAMES = {"call_finished": ("turn", "number"), **dict.fromkeys(_ENDS, ("turns", "calls"))}
"""Kind of record -> the name of a field in records of older versions, and its present name."""


class _Line(msgspec.Struct, frozen=True, eq=False):
    """An event as a row of the table `events`, and the change that it makes in the table `runs`."""

    event: Mapping[str, Any]
    generation: int
    """Lease generation in which the event was appended."""
    change: RunChange | None = None
    tools: tuple[CalledTool, ...] = ()
    """The tools that the run has called."""
    is_shared: bool = False
    """True: several processes may write rows of the run at the same moment, because a person was asked about it."""

    def is_of(self, record: EventRecord) -> bool:
        event = self.event
        return (event["run_id"], event["seq"], event["kind"]) == (record.run_id, record.seq, record.kind)


def _line(record: EventRecord, generation: int, *, is_shared: bool, tools: tuple[CalledTool, ...]) -> _Line:
    """Returns a record as a row of `events`, with the change that it makes in the table `runs`."""
    event = {
        "run_id": record.run_id,
        "seq": record.seq,
        "at": record.at,
        "kind": record.kind,
        # `audit.trail` has redacted the texts; this covers names and ids, which it stores as they are.
        "data": KNOWN.redact(_encode(packed(record.data) if record.kind == PACKED else record.data).decode()),
    }
    return _Line(event, generation, change=_change(record), tools=tools, is_shared=is_shared)


def _change(record: EventRecord) -> RunChange | None:
    """Returns the change of the run's row that follows from a record."""
    if record.kind == "run_started":
        return RunChange(record.run_id, new_run=_new_run(record))
    if record.kind not in _ENDS and record.kind not in _BEGINS:
        return None
    changes = {name: record.data[name] for name in ENDING if name in record.data}
    return RunChange(record.run_id, changes=changes, continues=record.kind in _BEGINS) if changes else None


def record_of(row: Row[Any]) -> EventRecord:
    """Returns the record that a row of the table `events` has."""
    data = _renamed(row.kind, msgspec.json.decode(row.data))
    data = unpacked(data) if row.kind == PACKED else data
    return EventRecord(run_id=row.run_id, seq=row.seq, at=row.at, kind=row.kind, data=data)


def _renamed(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Returns the data of a record with the present names of the fields that older versions wrote under another one."""
    if (names := _OLDER_NAMES.get(kind)) is None or names[0] not in data:
        return data
    older, name = names
    return {name if key == older else key: value for key, value in data.items()}


def _new_run(record: EventRecord) -> Mapping[str, Any]:
    """Returns the row of the table `runs` for a run that starts."""
    principal = record.data.get("principal", {})
    return {
        "run_id": record.run_id,
        "started": record.at,
        "message": record.data.get("message", ""),
        "status": "running",
        "principal": principal.get("id", ""),
        "tenant": principal.get("tenant", "default"),
        "bot": principal.get("bot"),
        "preset": record.data.get("preset", ""),
        "calls": 0,
        "rounds": 0,
        "seconds": None,
    }


def _audit_error(error: StorageError) -> AuditError:
    if isinstance(error, LeaseLostError):
        return RunTakenError(f"this run may not go on: {error}")
    return AuditError(f"the trail cannot be written, so nothing may run: {error}")
