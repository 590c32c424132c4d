"""Attacks of somebody who can write the database and knows how Toolcaddie seals its trail, but does not have the key.

Whole trails are put in the place of others, records of pruned rows are forged, and changes are followed by a pruning that is
meant to cover them up.

Each is made by plain SQL in a copy of a real trail, and then checked as `toolcaddie audit verify` checks.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from security.goals import Goal, none_of
from security.trail_changes import KEY, Head, NothingChanged, RandomChanges, written
from toolcaddie.storage.chain import ChainError
from toolcaddie.storage.database import Database
from toolcaddie.storage.seals import Gap, Sealer
from toolcaddie.storage.seals import Head as ChainHead
from toolcaddie.storage.verification import Anchor

_DAY = 86_400.0
_EVERY = 0.5 * _DAY
"""Age above which the prunings remove runs: all but the last."""
_ROWS = "select id, run_id, seq, at, kind, data from events where id >= ? order by id"


def forged(times: int) -> Sequence[Goal]:
    """Makes so many forgeries of each kind, and so many changes before a pruning, and returns the goals."""
    return asyncio.run(_forged(times))


async def _forged(times: int) -> Sequence[Goal]:
    with tempfile.TemporaryDirectory(prefix="security-") as name:
        folder = Path(name)
        file, other = folder / "trail.sqlite", folder / "other.sqlite"
        heads, anchor = await written(file)
        await written(other)
        attack = _Forger(file, other, heads, anchor, random.Random(11))
        return [
            await attack.goal("trails replaced by an empty or forged one, not found", attack.replaced, times),
            await attack.goal(
                "trails emptied with the sealed head of their first day put back, not found with the anchor",
                [attack.first_day],
                times,
                anchors=[anchor],
            ),
            await attack.goal(
                "trails replaced by a true one of another database, not found with the anchor",
                [attack.other_database],
                1,
                anchors=[anchor],
            ),
            await attack.goal("forged records of pruned rows not found", attack.records, times),
            await attack.prunings(times),
        ]


class _Forger:
    """Forges copies of a trail. `other`: a trail of another database, sealed with the same key."""

    def __init__(self, file: Path, other: Path, heads: Sequence[Head], anchor: Anchor, chance: random.Random) -> None:
        self.file = file
        self.other = other
        self.copy = file.with_name("copy.sqlite")
        self.heads = heads
        self.anchor = anchor
        self.chance = chance
        self.replaced = (self.unsealed, self.sealed_without_key, self.sealed_with_another_key)
        self.records = (self.longer_record, self.new_record, self.copied_record)

    async def goal(
        self,
        name: str,
        kinds: Sequence[Callable[[sqlite3.Connection], None]],
        times: int,
        *,
        anchors: Sequence[Anchor] = (),
    ) -> Goal:
        """Makes each kind of forgery so many times, and counts those that the check does not find."""
        missed = 0
        for forge in [*kinds] * times:
            shutil.copy(self.file, self.copy)
            with closing(sqlite3.connect(self.copy)) as connection, connection:
                forge(connection)
            missed += not await self._is_found(anchors)
        return none_of(name, missed, len(kinds) * times)

    async def prunings(self, times: int) -> Goal:
        """Changes the trail at random, and prunes it. Either the pruning is refused, or the change is found afterwards."""
        missed = number = refused = 0
        while number < times:
            shutil.copy(self.file, self.copy)
            try:
                self._change(number)
            except (NothingChanged, IntegrityError, OverflowError):
                continue
            number += 1
            try:
                async with self._opened() as database:
                    await database.retention.prune(_EVERY, by="security")
            except ChainError:
                refused += 1
            missed += not await self._is_found(())
        goal = none_of("changes before a pruning not found after it", missed, times)
        return Goal(name=goal.name, figure=f"{goal.figure} (refused: {refused:,})", goal="0", met=goal.met)

    def _change(self, number: int) -> None:
        """Makes a random change, or every fourth time forges a record."""
        if number % 4 == 3:
            with closing(sqlite3.connect(self.copy)) as connection, connection:
                self.chance.choice(self.records)(connection)
            return
        changes = RandomChanges(self.copy, self.heads, self.anchor, self.chance)
        try:
            with changes.engine.begin() as database:
                changes.kind(number)(database)
        finally:
            changes.engine.dispose()

    async def _is_found(self, anchors: Sequence[Anchor]) -> bool:
        async with self._opened() as database:
            return bool((await database.audits.verify(anchors)).changes_total)

    def _opened(self) -> Database:
        return Database(f"sqlite:///{self.copy}", audit_key=KEY)

    # --- whole trails

    def unsealed(self, connection: sqlite3.Connection) -> None:
        """Removes all rows, and puts back the head of a database in which nothing was ever written."""
        self._empty(connection)
        _write_head(connection, self.anchor.first - 1, b"", b"", key_id="")

    def sealed_without_key(self, connection: sqlite3.Connection) -> None:
        """Changes a row, and seals all rows again without a key."""
        self._seal_again(connection, Sealer())

    def sealed_with_another_key(self, connection: sqlite3.Connection) -> None:
        """Changes a row, and seals all rows again with another key, in the name of the true one."""
        self._seal_again(connection, Sealer(self.chance.randbytes(32)))

    def first_day(self, connection: sqlite3.Connection) -> None:
        """Removes all rows, and puts back the head that was sealed before the first row."""
        self._empty(connection)
        _write_head(connection, *self.heads[0])

    def other_database(self, connection: sqlite3.Connection) -> None:
        """Takes rows, head and records from a true trail of another database."""
        self._empty(connection)
        connection.execute("delete from trail_head")
        connection.commit()
        connection.execute("attach database ? as other", (str(self.other),))
        for table in ("events", "trail_gaps", "trail_head"):
            connection.execute(f"insert into {table} select * from other.{table}")

    def _empty(self, connection: sqlite3.Connection) -> None:
        connection.execute("delete from events")
        connection.execute("delete from trail_gaps")

    def _seal_again(self, connection: sqlite3.Connection, sealer: Sealer) -> None:
        first, trail = self.anchor.first, self.anchor.trail
        position = self.chance.choice(_ids(connection))
        connection.execute("update events set data = '{}' where id = ?", (position,))
        gaps = {gap.first: gap for gap in _gaps(connection)}
        link, at = sealer.start(trail, first), first - 1
        for row in connection.execute(_ROWS, (first,)).fetchall():
            if (gap := gaps.get(at + 1)) is not None:
                link = gap.link
                seal = sealer.gap(trail, gap)
                connection.execute("update trail_gaps set seal = ? where first = ?", (seal, gap.first))
            link, at = sealer.link(link, row), row[0]
            connection.execute("update events set link = ? where id = ?", (link, at))
        key_id = self.chance.choice([sealer.key_id, self.anchor.key_id])
        head = ChainHead(trail=trail, first=first, position=at, link=link, key_id=key_id)
        _write_head(connection, at, link, sealer.head(head), key_id=key_id)

    # --- records of pruned rows

    def longer_record(self, connection: sqlite3.Connection) -> None:
        """Removes rows beside pruned ones, and lets the record include them, with its old seal."""
        gap = self.chance.choice(_gaps(connection))
        behind = [each for each in _ids(connection) if each > gap.last][: self.chance.randrange(1, 6)]
        link = _link(connection, behind[-1])
        connection.execute("delete from events where id between ? and ?", (behind[0], behind[-1]))
        connection.execute("update trail_gaps set last = ?, link = ? where first = ?", (behind[-1], link, gap.first))

    def new_record(self, connection: sqlite3.Connection) -> None:
        """Removes rows, and writes a record of them, sealed with another key or without one."""
        sealer = self.chance.choice([Sealer(), Sealer(self.chance.randbytes(32))])
        self._record(connection, lambda gap: sealer.gap(self.anchor.trail, gap))

    def copied_record(self, connection: sqlite3.Connection) -> None:
        """Removes rows, and writes a record of them with the seal of a true record."""
        (seal,) = connection.execute("select seal from trail_gaps").fetchone()
        self._record(connection, lambda gap: seal)

    def _record(self, connection: sqlite3.Connection, seal: Callable[[Gap], bytes]) -> None:
        ids = _ids(connection)
        start = self.chance.randrange(len(ids))
        some = ids[start : start + self.chance.randrange(1, 6)]
        rows = [each for each in some if each - some[0] == some.index(each)]
        gap = Gap(first=rows[0], last=rows[-1], link=_link(connection, rows[-1]))
        connection.execute("delete from events where id between ? and ?", (gap.first, gap.last))
        connection.execute("insert into trail_gaps values (?, ?, ?, ?)", (gap.first, gap.last, gap.link, seal(gap)))


def _ids(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("select id from events order by id")]


def _gaps(connection: sqlite3.Connection) -> list[Gap]:
    rows = connection.execute("select first, last, link from trail_gaps").fetchall()
    return [Gap(first=first, last=last, link=link) for first, last, link in rows]


def _link(connection: sqlite3.Connection, position: int) -> bytes:
    link: bytes
    (link,) = connection.execute("select link from events where id = ?", (position,)).fetchone()
    return link


def _write_head(
    connection: sqlite3.Connection, position: int, link: bytes, seal: bytes, *, key_id: str | None = None
) -> None:
    connection.execute("update trail_head set position = ?, link = ?, seal = ?", (position, link, seal))
    if key_id is not None:
        connection.execute("update trail_head set key_id = ?", (key_id,))
