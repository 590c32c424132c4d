"""The partitions of the trail on PostgreSQL.

The table `events` is divided by row id, so that old rows can be removed by giving up a whole partition, in milliseconds,
instead of row by row. Whoever writes makes the next partitions long before they are needed. The first one has everything
before the second: what was written before the trail had partitions, or the rows that stayed from those that were given up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from toolcaddie.storage.migrations.versions.s0013_partitions import BOUND

ROWS = 4_194_304
"""Smallest number of row ids of a partition: some gigabytes."""
MOST = 32
"""About the number of partitions of a trail that loses its oldest rows as fast as it gets new ones. A query of one run looks
into each of them, so partitions of a large trail are larger."""

_AHEAD = 2
"""Smallest number of empty partitions ahead, so that servers of an older version, which make none, find room during an
upgrade."""
_LARGE = 1 << 28
"""Bytes from which a table is read before the migration, and not in it, while others wait."""
_NO_END = 1 << 63
"""End of a table without partitions."""
_BUSY = "55P03"
"""PostgreSQL's code for a lock that somebody else holds for longer than the timeout."""
_LIST = text(
    "SELECT part.relname, pg_get_expr(part.relpartbound, part.oid) FROM pg_inherits "
    "JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = to_regclass('events')"
)
_WAIT = "50ms"
"""Time for which writers may have to wait for the readers of the trail."""
_LARGER = 10
"""How much larger the first partition may be than one that is merged into it. It is read once, while others wait."""
_RANGE = re.compile(r"FROM \((?:MINVALUE|'?(-?\d+)'?)\) TO \('?(-?\d+)'?\)")
_POSITION = text("SELECT position FROM trail_head")
_PLAIN_SIZE = text(
    "SELECT pg_relation_size(oid) FROM pg_class WHERE oid = to_regclass('events') AND relkind = 'r' "
    "AND to_regclass('trail_head') IS NOT NULL"
)
_CHECKS = text("SELECT count(*) FROM pg_constraint WHERE conname = :name AND conrelid = to_regclass('events')")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A part of the trail, by the ids of its rows."""

    table: str
    first: int | None
    """Lowest id; None: all before `until`."""
    until: int
    """Lowest id behind it."""


def partitions(connection: Connection) -> Sequence[Partition]:
    """Returns the partitions in the order of their ids; on SQLite there are none."""
    if connection.dialect.name != "postgresql":
        return ()
    listed = []
    for table, bounds in connection.execute(_LIST):
        if (found := _RANGE.search(bounds)) is not None:
            first = None if found[1] is None else int(found[1])
            listed.append(Partition(table=table, first=first, until=int(found[2])))
    return sorted(listed, key=lambda each: each.until)


class Room:
    """Makes partitions ahead of the rows that are written. `rows`: the smallest number of row ids of a partition."""

    def __init__(self, rows: int = ROWS) -> None:
        self._rows = rows
        self._enough: int | None = None
        """Position up to which no partition is needed, as far as this process knows."""
        self._made_in: Any = None
        """The last transaction that made a partition: what it made may not be on disk yet."""

    def open(self, connection: Connection) -> None:
        """Makes the partitions that a database lacks when it is opened."""
        if connection.dialect.name == "postgresql" and (position := connection.execute(_POSITION).scalar()) is not None:
            self.keep(connection, position)

    def keep(self, connection: Connection, position: int) -> None:
        """Makes partitions, if there are not enough behind the row `position`. Within the transaction that has locked the
        head of the trail, so that one process does it at a time."""
        if connection.dialect.name != "postgresql" or (self._enough is not None and position < self._enough):
            return
        while (until := _end(connection)) <= position + _AHEAD * self._rows:
            is_urgent = until <= position + self._rows
            if not is_urgent and not is_free(connection, mode="SHARE UPDATE EXCLUSIVE", tables=("events",), wait="1ms"):
                self._enough = position + self._rows // 64  # somebody analyzes the table; there is time
                return
            _add(connection, self._rows)
            self._made_in = connection.get_transaction()
        if self._made_in is not connection.get_transaction():
            self._enough = until - _AHEAD * self._rows

    def reach(self, connection: Connection, position: int) -> None:
        """Makes the partitions for all rows up to `position`, and those ahead. In a database that no other process uses."""
        if connection.dialect.name == "postgresql":
            while _end(connection) <= position + _AHEAD * self._rows:
                _add(connection, self._rows)


def merge_first(connection: Connection, *, most: int) -> None:
    """Moves the rows of the second partition into the first one and drops it, as often as both have few rows and no new ones
    come: the second one up to `most`."""
    while (pair := _mergeable(connection, most)) is not None:
        first, second = pair
        if not is_free(connection, mode="ACCESS EXCLUSIVE", tables=("events", first.table, second.table), wait=_WAIT):
            return
        for statement in (
            f"ALTER TABLE events DETACH PARTITION {first.table}",
            f"ALTER TABLE events DETACH PARTITION {second.table}",
            f"INSERT INTO {first.table} SELECT * FROM {second.table}",
            f"DROP TABLE {second.table}",
            f"ALTER TABLE events ATTACH PARTITION {first.table} FOR VALUES FROM (MINVALUE) TO ({second.until})",
        ):
            connection.exec_driver_sql(statement)


def prove_bound(engine: Engine, *, larger_than: int = _LARGE) -> None:
    """Reads a large trail without partitions once while others write, so that the migration need not read it while they wait:
    it becomes the first partition, and PostgreSQL wants to know that none of its rows belong to the next one."""
    if engine.dialect.name != "postgresql":
        return
    with engine.begin() as connection:
        size = connection.execute(_PLAIN_SIZE).scalar()
        if size is None or size < larger_than:
            return
        if not connection.execute(_CHECKS, {"name": BOUND}).scalar():
            position = connection.execute(_POSITION).scalar_one()
            until = position + max(_AHEAD * ROWS, position // 8)  # what is written meanwhile belongs to it too
            connection.exec_driver_sql(f"ALTER TABLE events ADD CONSTRAINT {BOUND} CHECK (id < {until}) NOT VALID")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"ALTER TABLE events VALIDATE CONSTRAINT {BOUND}")


def is_free(connection: Connection, *, mode: str, tables: Sequence[str], wait: str) -> bool:
    """Locks tables for the transaction. Returns False if others use one for longer than `wait`: they go before."""
    names = ", ".join(f"ONLY {table}" for table in tables)
    try:
        with connection.begin_nested(), _timeout(connection, wait):
            connection.exec_driver_sql(f"LOCK TABLE {names} IN {mode} MODE")
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _BUSY:
            return False
        raise
    return True


@contextmanager
def _timeout(connection: Connection, wait: str) -> Iterator[None]:
    before = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{wait}'")
    yield
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{before}'")


def _mergeable(connection: Connection, most: int) -> tuple[Partition, Partition] | None:
    """Returns the first two partitions, if both are almost empty and will stay so."""
    listed = partitions(connection)
    if len(listed) < 2:
        return None
    first, second = listed[:2]
    few = min(most, (second.until - (second.first or 0)) // 4)
    is_past = second.until <= connection.execute(_POSITION).scalar_one() + 1
    is_small = is_past and _has_few(connection, second, few) and _has_few(connection, first, _LARGER * most)
    return (first, second) if is_small else None


def _has_few(connection: Connection, part: Partition, most: int) -> bool:
    count = f"SELECT count(*) FROM (SELECT 1 FROM {part.table} LIMIT {most + 1}) AS rows"
    return bool(connection.exec_driver_sql(count).scalar_one() <= most)


def _end(connection: Connection) -> int:
    """Returns the lowest id for which there is no partition."""
    return max((each.until for each in partitions(connection)), default=_NO_END)


def _add(connection: Connection, rows: int) -> None:
    """Makes the partition behind the last one. It is attached, which no reader and no writer waits for, and not created in
    place."""
    existing = partitions(connection)
    first = existing[-1].until
    size = max(rows, (first - existing[0].until) // MOST)
    connection.exec_driver_sql(f"CREATE TABLE events_{first} (LIKE events INCLUDING ALL)")
    connection.exec_driver_sql(
        f"ALTER TABLE events ATTACH PARTITION events_{first} FOR VALUES FROM ({first}) TO ({first + size})"
    )
