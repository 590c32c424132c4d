"""Settles the runs of a process that has died: a run with a stored state becomes paused and can be resumed, any other fails.

`leases` calls this when it removes the process. If a call of a tool was announced in the trail and has no outcome there, its
outcome is recorded as unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import BindParameter, Connection, bindparam, func, or_, select, update

from toolcaddie.storage.chain import Chain
from toolcaddie.storage.runs import RUN, unknown_calls, waiting_calls
from toolcaddie.storage.tables import documents, events, runs

GONE = "the process that ran it has ended"
"""Reason that the trail shows."""

_AT_ONCE = 500
"""Number of runs in one statement, below the limit of parameters of every database (older SQLite: 999)."""
_CALL_KINDS = ("call_intended", "call_finished", "call_unknown")
"""Kinds of the records of calls."""

_encode = msgspec.json.Encoder().encode

_RUN_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_ABANDONED = select(runs.c.run_id).where(runs.c.owner == bindparam("number"))
_LAST = (
    select(events.c.run_id, func.max(events.c.seq).label("last"))
    .where(events.c.run_id.in_(_RUN_IDS))
    .group_by(events.c.run_id)
)
_CALLS = (
    select(events.c.run_id, events.c.kind, events.c.data)
    .where(events.c.run_id.in_(_RUN_IDS), events.c.kind.in_(_CALL_KINDS))
    .order_by(events.c.id)
)
_STORED = select(documents.c.key, documents.c.value).where(
    documents.c.kind == RUN,
    documents.c.key.in_(_RUN_IDS),
    or_(documents.c.expires.is_(None), documents.c.expires > bindparam("now")),
)
_END = update(runs).where(runs.c.run_id == bindparam("of_run")).values(status=bindparam("new_status"), owner=None)

Data = Mapping[str, Any]


def settle_runs(connection: Connection, number: int, *, chain: Chain, clock: Callable[[], float]) -> None:
    """Ends the open runs of the owner with that number, within the transaction that removes it."""
    abandoned: Sequence[str] = connection.execute(_ABANDONED, {"number": number}).scalars().all()
    for start in range(0, len(abandoned), _AT_ONCE):
        _settle(connection, abandoned[start : start + _AT_ONCE], chain, clock())


def _settle(connection: Connection, run_ids: Sequence[str], chain: Chain, now: float) -> None:
    """Ends the open runs with these ids: records calls without an outcome as unknown, then the end of each run, and updates its
    row."""
    parameters = {"run_ids": run_ids}
    chain.lock(connection)  # first, so that no other process adds a row after the last numbers are read
    last = {row.run_id: row.last for row in connection.execute(_LAST, parameters)}
    calls = _calls(connection.execute(_CALLS, parameters))
    stored = {row.key: bytes(row.value) for row in connection.execute(_STORED, {**parameters, "now": now})}
    rows, ends = [], []
    for run_id in run_ids:
        end = _pause_record(stored[run_id]) if run_id in stored else _failure_record()
        open_calls = _open_calls(calls.get(run_id, {}), stored.get(run_id))
        facts = (*(("call_unknown", {**data, "reason": GONE}) for data in open_calls), end)
        for seq, (kind, data) in enumerate(facts, start=last.get(run_id, 0) + 1):
            rows.append({"run_id": run_id, "seq": seq, "at": now, "kind": kind, "data": _encode(data).decode()})
        ends.append({"of_run": run_id, "new_status": end[1]["status"]})
    chain.append(connection, rows, chain.lock(connection))
    connection.execute(_END, ends)


def _calls(rows: Iterable[Any]) -> Mapping[str, Mapping[str, Data | None]]:
    """Returns the announced calls of each run by call id; None for a call that has an outcome."""
    calls: dict[str, dict[str, Data | None]] = {}
    for run_id, kind, text in rows:
        data = msgspec.json.decode(text)
        calls.setdefault(run_id, {})[data["id"]] = data if kind == "call_intended" else None
    return calls


def _open_calls(calls: Mapping[str, Data | None], stored: bytes | None) -> Iterator[Data]:
    """Yields the calls of a run that have no outcome.

    If the process was killed right before it announced a call in the trail, only the stored state contains that call.
    """
    yield from (data for data in calls.values() if data is not None)
    if stored is not None:
        yield from (data for data in unknown_calls(stored) if data["id"] not in calls)


def _pause_record(stored: bytes) -> tuple[str, Data]:
    return "run_paused", {"status": "pending", "waiting": waiting_calls(stored), "reason": GONE}


def _failure_record() -> tuple[str, Data]:
    return "run_failed", {"status": "failed", "error": GONE, "kind": "Abandoned"}
