"""Figures of the trail for the console: small sums by day, month and for all time, so that no page reads a million rows.

`advance` counts the next rows of the trail, and moves the position behind them in the same transaction by compare-and-set. So two
processes that count the same rows add them once, and a process that is killed has counted a step wholly or not at all. What a
pruning removes from the trail stays in the sums. See `counting` for what is counted.

Like the counts of keys, commits do not wait for the disk: after a power cut the last steps are counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, Select, bindparam, func, literal_column, select, update

from toolcaddie.storage.counting import KINDS, StoredRow, count, run_of
from toolcaddie.storage.name_bounds import OTHERS, within_bounds
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.sums import ALWAYS, COLUMNS, CountedRun, PricesOf, Sums, Topic
from toolcaddie.storage.tables import api_keys, events, figures, figures_position, key_usage, runs
from toolcaddie.storage.upsert import add_to_rows
from toolcaddie.storage.writer import Writer, outcome

STEP = 500
"""Number of rows of the trail in one step, whose writing takes some milliseconds, or some tens if all of its tools differ."""

_AT_ONCE = 500
"""Number of run ids or names in one statement."""

_others = figures.alias()
_NAME = figures.c.name.concat(literal_column("''"))
"""By a computed name, SQLite reads the rows of a period in the order in which they stand, and not by an index."""
_POSITION = select(figures_position.c.position)
_END = select(func.coalesce(func.max(events.c.id), 0))
_NEXT = select(func.coalesce(func.min(events.c.id), 0)).where(events.c.id > bindparam("after"))
_ROWS = (
    select(events.c.run_id, events.c.at, events.c.kind, events.c.data)
    .where(events.c.id > bindparam("after"), events.c.id <= bindparam("until"), events.c.kind.in_(KINDS))
    .order_by(events.c.id)
)
_STARTS = select(events.c.run_id, events.c.data).where(
    events.c.run_id.in_(bindparam("run_ids", expanding=True)), events.c.kind == "run_started"
)
_TENANTS = select(_others.c.tenant).where(_others.c.topic == "requests", _others.c.period == ALWAYS)
"""All tenants that have figures: whatever is counted belongs to a run, whose start is counted too."""
_MOVE = (
    update(figures_position)
    .where(figures_position.c.position == bindparam("before"))
    .values(position=bindparam("after"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Sums under one name, or of one period. What its numbers mean depends on the topic, see `counting`."""

    name: str = ""
    period: str = ""
    number: int = 0
    failed: int = 0
    sent: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    money: int = 0
    """Billionths of a US dollar."""
    unpriced: int = 0
    instead: int = 0
    """Billionths of a US dollar."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Use(Struct, frozen=True, gc=False):
    """The use of one name: what `counting` counts, without tokens and money."""

    number: int
    failed: int
    sent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigure:
    """The use of one API key within some days."""

    key_id: str
    name: str
    principal: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: int
    """Billionths of a US dollar."""
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of counting the trail. Both are ids of rows."""

    position: int
    end: int

    @property
    def behind(self) -> int:
        return max(0, self.end - self.position)


class Figures:
    """Counts the trail, and answers from the sums. `tenant` is None for the sum of all tenants."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def advance(self, prices_of: PricesOf, *, step: int = STEP) -> Progress:
        """Counts the next rows of the trail, if another process does not count them first. Returns the progress, with the end of
        the trail as it was before. Raises `StorageError`."""
        before, last, end, sums = await self._reader.snapshot(lambda connection: _read(connection, prices_of, step))
        after = min(last, end)
        if after <= before:
            return Progress(position=before, end=end)
        is_ours = await outcome(
            self._writer.submit(lambda connection: _write(connection, sums, before, after), urgent=False)
        )
        return Progress(position=after if is_ours else before, end=end)

    async def progress(self) -> Progress:
        """Returns how far the trail has been counted. Raises `StorageError`."""
        statement = select(_POSITION.scalar_subquery().label("position"), _END.scalar_subquery().label("end"))
        (row,) = await self._reader.all(statement)
        return Progress(position=row.position, end=row.end)

    async def names(
        self, topic: Topic, period: str, tenant: str | None, *, by: str = "number", most: int = 50
    ) -> Sequence[Figure]:
        """Returns the names of a topic in a period with the largest numbers `by` a column. Raises `StorageError`."""
        conditions, largest = (figures.c.topic == topic, figures.c.period == period), func.sum(figures.c[by])
        best = _of(select(_NAME).where(*conditions), tenant).group_by(_NAME).having(largest > 0)
        best = best.order_by(largest.desc(), _NAME).limit(most)
        rows = await self._reader.snapshot(lambda connection: _summed(connection, best, conditions, tenant))
        return [Figure(period=period, **row._mapping) for row in rows]

    async def days(
        self, topic: Topic, periods: Sequence[str], tenant: str | None, *, name: str = ""
    ) -> Sequence[Figure]:
        """Returns the sums of one name in each of the periods. Raises `StorageError`."""
        statement = _sums(figures.c.period).where(
            figures.c.topic == topic, figures.c.name == name, figures.c.period.in_(periods)
        )
        # With all tenants by name, each row is found by the primary key; without them, SQLite reads the whole periods.
        whose = figures.c.tenant.in_(_TENANTS) if tenant is None else figures.c.tenant == tenant
        rows = await self._reader.all(statement.where(whose).group_by(figures.c.period))
        by_period = {row.period: Figure(name=name, **row._mapping) for row in rows}
        return [by_period.get(period, Figure(name=name, period=period)) for period in periods]

    async def uses(self, topic: Topic, period: str, tenant: str | None) -> Mapping[str, Use]:
        """Returns the use of all names of a topic in a period. Raises `StorageError`."""
        columns = (func.sum(figures.c[name]).cast(figures.c[name].type).label(name) for name in Use.__struct_fields__)
        statement = select(_NAME, *columns).where(figures.c.topic == topic, figures.c.period == period)
        statement = _of(statement, tenant).group_by(_NAME)
        # The thread of the reader makes them, because there may be thousands.
        return await self._reader.snapshot(
            lambda connection: {row[0]: Use(row[1], row[2], row[3]) for row in connection.execute(statement)}
        )

    async def keys(self, first: str, last: str, tenant: str | None) -> Sequence[KeyFigure]:
        """Returns the use of API keys from one day to another, the most expensive first. Raises `StorageError`."""
        columns = ("requests", "input_tokens", "output_tokens", "money", "unpriced")
        sums = [func.sum(key_usage.c[column]).label(column) for column in columns]
        statement = (
            select(key_usage.c.key_id, api_keys.c.name, api_keys.c.principal, *sums)
            .join(api_keys, api_keys.c.id == key_usage.c.key_id)
            .where(key_usage.c.day >= first, key_usage.c.day <= last)
            .group_by(key_usage.c.key_id, api_keys.c.name, api_keys.c.principal)
        )
        if tenant is not None:
            statement = statement.where(api_keys.c.tenant == tenant)
        rows = await self._reader.all(statement)
        result = [KeyFigure(**{**row._mapping, **{name: int(getattr(row, name)) for name in columns}}) for row in rows]
        return sorted(result, key=lambda key: (-key.money, -key.input_tokens - key.output_tokens, key.name))

    async def waiting(self, tenant: str | None) -> int:
        """Returns the number of runs that wait for a person's answer. Raises `StorageError`."""
        statement = select(func.count()).select_from(runs).where(runs.c.status == literal_column("'pending'"))
        if tenant is not None:
            statement = statement.where(runs.c.tenant == tenant)
        (row,) = await self._reader.all(statement)
        return int(row[0])


def _summed(
    connection: Connection, best: Select[Any], conditions: Sequence[Any], tenant: str | None
) -> Sequence[Row[Any]]:
    """Returns the few names that a select finds, in its order, with the sums of all columns."""
    names = connection.execute(best).scalars().all()
    statement = _of(_sums(figures.c.name).where(*conditions, figures.c.name.in_(names)), tenant)
    sums = {row.name: row for row in connection.execute(statement.group_by(figures.c.name))}
    return [sums[name] for name in names]


def _sums(column: Any) -> Select[Any]:
    # The sums of PostgreSQL are decimal numbers.
    return select(column, *(func.sum(figures.c[name]).cast(figures.c[name].type).label(name) for name in COLUMNS))


def _of(statement: Select[Any], tenant: str | None) -> Select[Any]:
    return statement if tenant is None else statement.where(figures.c.tenant == tenant)


def _read(connection: Connection, prices_of: PricesOf, step: int) -> tuple[int, int, int, Sums]:
    """Returns the position before and after a step, the end of the trail, and the sums of the rows in between."""
    before = int(connection.execute(_POSITION).scalar_one())
    end = int(connection.execute(_END).scalar_one())
    first = int(connection.execute(_NEXT, {"after": before}).scalar_one())  # prunings leave gaps
    last = max(before, first - 1) + step
    records = connection.execute(_ROWS, {"after": before, "until": last}).all()
    rows = [StoredRow(*row) for row in records]
    return before, last, end, within_bounds(connection, count(rows, _runs(connection, rows), prices_of))


def _runs(connection: Connection, rows: Sequence[StoredRow]) -> Mapping[str, CountedRun]:
    """Returns the runs of rows. The first row of a run may have been counted long ago."""
    starts = {row.run_id: row.data for row in rows if row.kind == "run_started"}
    missing = sorted({row.run_id for row in rows} - set(starts))
    for place in range(0, len(missing), _AT_ONCE):
        for row in connection.execute(_STARTS, {"run_ids": missing[place : place + _AT_ONCE]}):
            starts[row.run_id] = row.data
    return {run_id: run for run_id, data in starts.items() if (run := run_of(data)) is not None}


def _write(connection: Connection, sums: Sums, before: int, after: int) -> bool:
    """Moves the position and adds the sums. Returns False, and adds nothing, if the position has moved meanwhile."""
    if connection.execute(_MOVE, {"before": before, "after": after}).rowcount != 1:
        return False
    rows = [
        {"topic": topic, "period": period, "tenant": tenant, "name": name, **dict(zip(COLUMNS, numbers, strict=True))}
        for (topic, period, tenant, name), numbers in sorted(sums.items())
    ]
    if rows:
        add_to_rows(connection, figures, rows)
    return True


__all__ = ["OTHERS", "STEP", "Figure", "Figures", "KeyFigure", "Progress", "Use"]
