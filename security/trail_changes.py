"""Changes a real trail at random, one change at a time, and counts the changes that the check does not find.

The trail is that of real runs: with calls, refusals, approvals and a pruning, sealed with a key. A change is made by plain SQL in
a transaction that is rolled back afterwards, so that the next one starts from the same trail.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import IntegrityError

from security.goals import Goal, none_of
from toolcaddie import tool
from toolcaddie.audit.trail import Trail
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database
from toolcaddie.storage.seals import Sealer
from toolcaddie.storage.verification import Anchor, verify
from toolcaddie.testing import ScriptedProvider, call, say

KEY = b"the key of the trail under attack"
_RUNS = 14
_DAY = 86_400.0
_BITS = 7
"""Bits of an ASCII character."""
_COLUMNS: Mapping[str, Sequence[str]] = {
    "events": ("id", "run_id", "seq", "at", "kind", "data", "link"),
    "trail_head": ("trail", "first", "position", "link", "key_id", "seal"),
    "trail_gaps": ("first", "last", "link", "seal"),
}
_CONTENT = ("run_id", "seq", "at", "kind", "data", "link")

Head = tuple[int, bytes, bytes]
"""Position, link and seal of a head."""


@tool(destructive=True)
async def remove_entry(number: int) -> str:
    """Remove an entry of the book."""
    return f"removed {number}"


@tool(read_only=True)
async def read_entry(number: int) -> str:
    """Read an entry of the book."""
    return f"entry {number}: " + "words " * (number % 7)


def checked(changes: int) -> Sequence[Goal]:
    """Makes so many changes, and as many cut tails as a tenth of it, and returns the goals."""
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        file = Path(folder) / "trail.sqlite"
        heads, anchor = asyncio.run(written(file))
        return RandomChanges(file, heads, anchor, random.Random(7)).goals(changes)


async def written(file: Path) -> tuple[Sequence[Head], Anchor]:
    """Makes the trail. Returns the heads that it had, from the one before the first row on, and an anchor of the last one."""
    now = time.time()
    clock = [now - 200 * _DAY]
    heads: list[Head] = []
    model = ScriptedProvider(_answer)
    async with Database(f"sqlite:///{file}", clock=lambda: now, audit_key=KEY) as database:
        trail = Trail(database.events, clock=lambda: clock[0])
        heads.append(_head(file))
        runtime = Runtime(provider=model, sources=[remove_entry, read_entry], trail=trail, documents=database.store)
        for number in range(_RUNS):
            clock[0] = now - (200 if number % 3 == 0 else 1) * _DAY + number
            paused = await runtime.run(f"entry {number}")
            if paused.status == "pending":
                answers = {item.call.id: number % 2 == 0 for item in paused.state.pending}
                await runtime.resume(paused.state.run_id, approvals=answers)
            await database.events.flush()
            heads.append(_head(file))
        await database.retention.prune(100 * _DAY, by="security")
        await runtime.run("entry 99")
        await database.events.flush()
        return heads, await database.audits.anchor()


def _answer(request: Any) -> Any:
    number = int(next(message.text for message in reversed(request.messages) if message.role == "user").split()[-1])
    results = sum(message.role == "tool" for message in request.messages)
    if results == 0:
        return call("read_entry", {"number": number})
    return call("remove_entry", {"number": number}) if results == 1 else say(f"Entry {number} is done.")


def _head(file: Path) -> Head:
    with sqlite3.connect(file) as connection:
        row: Head = connection.execute("select position, link, seal from trail_head").fetchone()
    connection.close()
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change that was made: its kind, and the ids of the rows of `events` one of which the check must name."""

    kind: str
    rows: frozenset[int] = frozenset()


class NothingChanged(Exception):
    """The random choice would have changed nothing, or the database refuses the change."""


class RandomChanges:
    """Makes single changes of a trail, by plain SQL. `heads`: earlier heads of it. `anchor`: the last one."""

    def __init__(self, file: Path, heads: Sequence[Head], anchor: Anchor, chance: random.Random) -> None:
        self.engine = create_engine(f"sqlite:///{file}")
        self.heads = [head for head in heads if head[0] < anchor.position]
        self.anchor = anchor
        self.chance = chance
        self.sealer = Sealer(KEY)
        with sqlite3.connect(file) as connection:
            self.ids = [row[0] for row in connection.execute("select id from events order by id")]
            self.gaps = [row[0] for row in connection.execute("select first from trail_gaps")]
        connection.close()

    def goals(self, changes: int) -> Sequence[Goal]:
        missed: dict[str, int] = {}
        unnamed = false_alarms = 0
        for number in range(changes):
            change, named_rows = self.played(self.kind(number), [])
            if not named_rows:
                missed[change.kind] = missed.get(change.kind, 0) + 1
            elif change.rows and change.rows.isdisjoint(named_rows):
                unnamed += 1
            if number % 20 == 0:
                false_alarms += bool(self.played(_nothing, [self.anchor])[1])
        cuts = max(1, changes // 10)
        hidden = sum(not self.played(self.cut_with_older_head, [self.anchor])[1] for _ in range(cuts))
        self.engine.dispose()
        rows = f"{len(self.ids)} rows and {len(self.gaps)} records of prunings"
        return [
            Goal(
                name=f"single changes of a trail not found ({rows}; flip, delete, swap, duplicate, truncate)",
                figure=f"{sum(missed.values()):,} of {changes:,}" + (f" {missed}" if missed else ""),
                goal="0",
                met=not missed and changes > 0,
            ),
            none_of("changes found whose row the check does not name", unnamed, changes),
            none_of("tails cut off with an older head put back, not found with the anchor", hidden, cuts),
            none_of("unchanged trails reported as changed", false_alarms, -(-changes // 20)),
        ]

    def kind(self, number: int) -> Callable[[Connection], _Change]:
        """Returns the kind of change number `number`: they take turns."""
        kinds = (*(self.flip,) * 4, self.delete, self.swap, self.swap_place, self.duplicate, self.truncate)
        return kinds[number % len(kinds)]

    def played(
        self, make: Callable[[Connection], _Change], anchors: Sequence[Anchor]
    ) -> tuple[_Change, frozenset[int | None]]:
        """Makes a change, checks the trail, and undoes the change. Returns the rows that the check names."""
        while True:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    change = make(connection)
                    report = verify(connection, self.sealer, anchors)
                    return change, frozenset(each.row for each in report.changes)
                except (NothingChanged, IntegrityError, OverflowError):
                    continue
                finally:
                    connection.exec_driver_sql("ROLLBACK")

    # --- the changes

    def flip(self, connection: Connection) -> _Change:
        """Flips one bit of one value."""
        table = self.chance.choices(list(_COLUMNS), (20, 1, 2))[0]
        column = self.chance.choice(_COLUMNS[table])
        key, place = {
            "events": ("id", self.chance.choice(self.ids)),
            "trail_head": ("id", 1),
            "trail_gaps": ("first", self.chance.choice(self.gaps)),
        }[table]
        (before,) = connection.exec_driver_sql(f"select {column} from {table} where {key} = ?", (place,)).one()
        after = self.flipped(before)
        if after == before:
            raise NothingChanged
        connection.exec_driver_sql(f"update {table} set {column} = ? where {key} = ?", (after, place))
        return _Change(kind=f"flip {table}.{column}", rows=frozenset({place} if table == "events" else ()))

    def flipped(self, value: Any) -> Any:
        if isinstance(value, int):
            return value ^ (1 << self.chance.randrange(31))
        if isinstance(value, float):
            (bits,) = struct.unpack(">q", struct.pack(">d", value))
            return struct.unpack(">d", struct.pack(">q", bits ^ (1 << self.chance.randrange(63))))[0]
        if not value:
            raise NothingChanged
        place = self.chance.randrange(len(value))
        if isinstance(value, bytes):
            return value[:place] + bytes([value[place] ^ (1 << self.chance.randrange(8))]) + value[place + 1 :]
        other = chr(ord(value[place]) ^ (1 << self.chance.randrange(_BITS)))
        return value[:place] + other + value[place + 1 :]

    def delete(self, connection: Connection) -> _Change:
        if self.chance.random() < 0.1:
            table, key, place = self.chance.choice([("trail_head", "id", 1), ("trail_gaps", "first", self.gaps[0])])
            connection.exec_driver_sql(f"delete from {table} where {key} = ?", (place,))
            return _Change(kind=f"delete {table}")
        place = self.chance.choice(self.ids)
        connection.exec_driver_sql("delete from events where id = ?", (place,))
        return _Change(kind="delete", rows=frozenset({place}))

    def swap(self, connection: Connection) -> _Change:
        """Exchanges some columns of two rows."""
        one, other = self.chance.sample(self.ids, 2)
        columns = self.chance.choice([_CONTENT, ("data",), ("at",), ("link",), ("kind", "data"), ("run_id",)])
        names = ", ".join(columns)
        values = [
            connection.exec_driver_sql(f"select {names} from events where id = ?", (n,)).one() for n in (one, other)
        ]
        if values[0] == values[1]:
            raise NothingChanged
        sets = ", ".join(f"{name} = ?" for name in columns)
        for place, row in ((one, values[1]), (other, values[0])):
            connection.exec_driver_sql(f"update events set {sets} where id = ?", (*row, place))
        return _Change(kind=f"swap {names}", rows=frozenset({one, other}))

    def swap_place(self, connection: Connection) -> _Change:
        """Moves a row to another id, next to it, among pruned rows, or to the end."""
        place = self.chance.choice(self.ids)
        target = self.chance.choice([place + 1, self.gaps[0], self.ids[-1] + 1, 0, -1])
        if target == place + 1 and target in self.ids:
            for one, other in ((place, -9), (target, place), (-9, target)):
                connection.exec_driver_sql("update events set id = ? where id = ?", (other, one))
        else:
            connection.exec_driver_sql("update events set id = ? where id = ?", (target, place))
        return _Change(kind="move", rows=frozenset({place, target}))

    def duplicate(self, connection: Connection) -> _Change:
        place = self.chance.choice(self.ids)
        target = self.chance.choice([self.ids[-1] + self.chance.randrange(1, 9), self.gaps[0], 0, -5])
        columns = ", ".join(_CONTENT)
        connection.exec_driver_sql(
            f"insert into events (id, {columns}) select ?, {columns} from events where id = ?", (target, place)
        )
        return _Change(kind="duplicate", rows=frozenset({target}))

    def truncate(self, connection: Connection) -> _Change:
        """Removes the last or first rows, or all."""
        count = self.chance.randrange(1, len(self.ids) + 1)
        rows = self.ids[-count:] if self.chance.random() < 0.7 else self.ids[:count]
        connection.exec_driver_sql("delete from events where id between ? and ?", (rows[0], rows[-1]))
        return _Change(kind="truncate", rows=frozenset({rows[0]}))

    def cut_with_older_head(self, connection: Connection) -> _Change:
        """Removes the last rows, and puts back the head that was true before they were written."""
        position, link, seal = self.chance.choice(self.heads)
        connection.exec_driver_sql("delete from events where id > ?", (position,))
        connection.exec_driver_sql("delete from trail_gaps where first > ?", (position,))
        connection.exec_driver_sql("update trail_head set position = ?, link = ?, seal = ?", (position, link, seal))
        return _Change(kind="cut")


def _nothing(connection: Connection) -> _Change:
    return _Change(kind="nothing")
