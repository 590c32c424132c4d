"""Pages of the trail, the newest rows first, in a time that has a bound however many rows there are.

Rows are found by their ids, which have the order of writing. A page looks at a limited number of rows: where few of them match,
it has fewer rows than it could, and says where to go on. The rows of one run, and what people did in the console, have an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.journal import record_of
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import events, runs

ACTS = "console_act"
"""Beginning of the kinds of rows about what people did in the console. Their run ids begin with `act_`."""

_IS_ACT = and_(events.c.run_id >= "act_", events.c.run_id < "act`")
_LOOKED_AT = 50_000
"""Largest number of rows that a page looks at."""
_ACTS_AT_ONCE = 500
_LATE_SECONDS = 60.0
"""Seconds after which a row may be written, so that the moments of rows are not exactly in the order of their ids."""


class TrailQuery(Struct, frozen=True, kw_only=True):
    """A filter for pages of the trail. A field that is None restricts nothing.

    TrailQuery(kind="console_act*", person="ann", limit=50)    # the first page
    TrailQuery(kind="console_act*", person="ann", limit=50, before=page.before)    # the next one
    """

    run_id: str | None = None
    person: str | None = None
    tenant: str | None = None
    kind: str | None = None
    """A kind, or the beginning of kinds with a `*` after it."""
    since: float | None = None
    """Seconds since the epoch; rows of this moment are included."""
    until: float | None = None
    """Seconds since the epoch; rows of this moment are not included."""
    before: int | None = None
    """Only rows before this one."""
    limit: int = 50


class SeenRow(Struct, frozen=True, kw_only=True):
    """A row of the trail, and who made its run, or who did it in the console; None: nobody knows."""

    id: int
    record: EventRecord
    person: str | None
    tenant: str | None


class TrailPage(Struct, frozen=True, kw_only=True):
    """Rows, the newest first."""

    rows: Sequence[SeenRow]
    before: int | None
    """The value for `TrailQuery.before` that continues; None: there are no more rows."""


async def read_page(reader: Reader, query: TrailQuery) -> TrailPage:
    """Returns a page of the trail. Raises `StorageError`."""
    if query.run_id is None and query.kind is not None and query.kind.startswith(ACTS):
        return await reader.snapshot(lambda connection: _acts(connection, query))
    return await reader.snapshot(lambda connection: _page(connection, query))


def conditions(query: Struct, *, takes_acts: bool = False) -> Sequence[ColumnElement[bool]]:
    """Returns the conditions of a filter of the trail, for a select of `events` joined with `runs`. `takes_acts`: True if rows
    about acts in the console fit whoever did them. They belong to no run in `runs`, so the caller has to compare `doers_of`."""
    values = {name: value for name, value in msgspec.structs.asdict(query).items() if value is not None}
    of_rows = [_OF_ROWS[name](value) for name, value in values.items() if name in _OF_ROWS]
    of_runs = [_OF_RUNS[name](value) for name, value in values.items() if name in _OF_RUNS]
    return [*of_rows, or_(_IS_ACT, and_(*of_runs))] if takes_acts and of_runs else [*of_rows, *of_runs]


def _kind_is(kind: str) -> ColumnElement[bool]:
    if kind.endswith("*"):
        return events.c.kind.startswith(kind[:-1], autoescape=True)
    return events.c.kind == kind


_OF_RUNS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "person": lambda value: runs.c.principal == value,
    "principal": lambda value: runs.c.principal == value,
    "tenant": lambda value: runs.c.tenant == value,
}
_OF_ROWS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "run_id": lambda value: events.c.run_id == value,
    "since": lambda value: events.c.at >= value,
    "until": lambda value: events.c.at < value,
    "kind": _kind_is,
}


def _page(connection: Connection, query: TrailQuery) -> TrailPage:
    last = _last_id(connection, query)
    lowest = 0 if query.run_id is not None else max(0, last - _LOOKED_AT)
    statement = (
        select(events, runs.c.principal, runs.c.tenant)
        .select_from(events.outerjoin(runs, events.c.run_id == runs.c.run_id))
        .where(events.c.id <= last, events.c.id > lowest, *conditions(query))
        .order_by(events.c.id.desc())
        .limit(query.limit)
    )
    found = connection.execute(statement).all()
    doers = doers_of(connection, [row.run_id for row in found])
    rows = []
    for row in found:
        person, tenant = doers.get(row.run_id, (row.principal, row.tenant))
        rows.append(SeenRow(id=row.id, record=record_of(row), person=person, tenant=tenant))
    if len(rows) == query.limit:
        return TrailPage(rows=rows, before=rows[-1].id)
    earliest = _first_since(connection, query.since - _LATE_SECONDS) if query.since is not None else 1
    return TrailPage(rows=rows, before=lowest + 1 if lowest >= earliest else None)


def _acts(connection: Connection, query: TrailQuery) -> TrailPage:
    """Returns a page of what people did in the console. Who did it is in the first row of each act."""
    before = _last_id(connection, query) + 1
    rows: list[SeenRow] = []
    own = (_IS_ACT, _kind_is(query.kind or ""))
    # By a computed id, so that the rows of acts are found by the index of their run ids and not in the order of the trail.
    computed = events.c.id + 0
    ids = connection.execute(select(events.c.id).where(*own, computed < before).order_by(computed.desc())).scalars()
    looked_at: list[int] = list(ids.fetchmany(_ACTS_AT_ONCE))
    ids.close()
    found = connection.execute(select(events).where(events.c.id.in_(looked_at)).order_by(events.c.id.desc())).all()
    records = [(row.id, record_of(row)) for row in found]
    doers = doers_of(connection, [record.run_id for _, record in records])
    for row_id, record in records:
        person, tenant = doers.get(record.run_id, (None, None))
        row = SeenRow(id=row_id, record=record, person=person, tenant=tenant)
        if _is_meant(row, query):
            rows.append(row)
            if len(rows) == query.limit:
                return TrailPage(rows=rows, before=row.id)
    is_all = len(looked_at) < _ACTS_AT_ONCE
    return TrailPage(rows=rows, before=None if is_all else looked_at[-1])


def _is_meant(row: SeenRow, query: TrailQuery) -> bool:
    return (
        (query.person is None or row.person == query.person)
        and (query.tenant is None or row.tenant == query.tenant)
        and (query.since is None or row.record.at >= query.since)
        and (query.until is None or row.record.at < query.until)
    )


def doers_of(connection: Connection, run_ids: Iterable[str]) -> Mapping[str, tuple[Any, Any]]:
    """Returns who did each act among these runs, and of which tenant."""
    act_ids = sorted({run_id for run_id in run_ids if run_id.startswith("act_")})
    if not act_ids:
        return {}
    statement = select(events).where(events.c.run_id.in_(act_ids), events.c.seq == 0)
    begun = [record_of(row) for row in connection.execute(statement)]
    return {each.run_id: (each.data.get("principal"), each.data.get("tenant")) for each in begun}


def _last_id(connection: Connection, query: TrailQuery) -> int:
    """Returns the id of the last row that a page may have."""
    last = connection.execute(select(func.max(events.c.id))).scalar() or 0
    if query.before is not None:
        last = min(last, query.before - 1)
    if query.until is not None:
        last = min(last, _first_since(connection, query.until + _LATE_SECONDS) - 1)
    return last


def _first_since(connection: Connection, moment: float) -> int:
    """Returns the id of about the first row since a moment, found in a number of steps that grows with the logarithm of the
    number of rows. The id after the last row: there is none."""
    low, high = 1, (connection.execute(select(func.max(events.c.id))).scalar() or 0) + 1
    while low < high:
        middle = (low + high) // 2
        statement = select(events.c.id, events.c.at).where(events.c.id >= middle).order_by(events.c.id).limit(1)
        row = connection.execute(statement).first()
        if row is None or row.at >= moment:
            high = middle
        else:
            low = row.id + 1
    return low
