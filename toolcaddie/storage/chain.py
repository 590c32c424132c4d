"""Adds rows to the trail, each linked to the row before, and records the rows that a pruning removes.

There is one chain for all processes of a database. Its head is a row of its own. A transaction that adds rows locks that row
first: SQLite has one writer in any case, and on PostgreSQL the processes take turns. So the ids of the rows have no gaps, and a
missing row is noticed. The cost is two statements for each group of rows, and one hash for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, literal_column, or_, select, update

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.seals import Gap, Head, Sealer, same
from toolcaddie.storage.tables import events, trail_gaps, trail_head
from toolcaddie.util.replacing import replace

_AT_ONCE = 400
"""Number of ids in one statement, below the limit of parameters of every database (older SQLite: 999)."""

_READ = "SELECT trail, first, position, link, key_id, seal FROM trail_head WHERE id = 1"
_INSERT = CompiledStatement(insert(events), ("id", "run_id", "seq", "at", "kind", "data", "link"))
_CHANGED = ("position", "link", "key_id", "seal")
_ADVANCE = CompiledStatement(
    update(trail_head)
    .where(trail_head.c.id == literal_column("1"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)


class ChainError(StorageError):
    """The head of the chain is missing, was changed, or is sealed with another key, so nothing may be added to it."""


class Chain:
    """Writes the rows of the trail. All methods run within a transaction of the writer."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._last: Head | None = None
        """The head that this process has seen on disk most recently."""
        self._transaction: Any = None
        """The transaction in which `_last` was read. The head read again in it may not be on disk yet."""

    def append(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Inserts rows of the table `events` in this order, and gives them their ids and links. Raises `ChainError`."""
        head = self.lock(connection)
        position, link = head.position, head.link
        linked: list[Mapping[str, Any]] = []
        for row in rows:
            position += 1
            link = self._sealer.link(link, (position, row["run_id"], row["seq"], row["at"], row["kind"], row["data"]))
            linked.append({**row, "id": position, "link": link})
        _INSERT.execute(connection, linked)
        write_head(connection, replace(head, position=position, link=link, key_id=self._sealer.key_id), self._sealer)

    def begin(self, connection: Connection) -> None:
        """Seals the head of a new database, so that nobody without the key can put an empty chain in the place of this one."""
        head, _ = read_head(connection)
        write_head(connection, self._sealer.begun(head), self._sealer)

    def lock(self, connection: Connection) -> Head:
        """Returns the head. No other process can add or prune rows until the transaction ends.

        Raises `ChainError` if the head was changed by another program than Toolcaddie: a new row would cover that up.
        """
        head, seal = read_head(connection, lock=True)
        if head.is_unsealed and not seal and not self._sealer.key_id:
            head = self._sealer.begun(head)
        elif head.key_id != self._sealer.key_id:
            raise ChainError(key_refusal(head.key_id, self._sealer.key_id))
        elif not same(seal, self._sealer.head(head)):
            raise ChainError(f"the head of the trail was changed; {_ADVICE}")
        self._compare(connection, head)
        return head

    def leave_gaps(self, connection: Connection, head: Head, rows: Sequence[tuple[int, bytes]]) -> None:
        """Records rows that are about to be removed, by their ids and links in the order of the ids. Neighbouring gaps become
        one."""
        new = [Gap(first=place, last=place, link=link) for place, link in rows if place >= head.first]
        ends = _joined(new)
        beside = self._beside(connection, ends)
        for start in range(0, len(beside), _AT_ONCE):
            firsts = [gap.first for gap in beside[start : start + _AT_ONCE]]
            connection.execute(delete(trail_gaps).where(trail_gaps.c.first.in_(firsts)))
        gaps = [
            {"first": gap.first, "last": gap.last, "link": gap.link, "seal": self._sealer.gap(head.trail, gap)}
            for gap in _joined(sorted([*ends, *beside], key=lambda gap: gap.first))
        ]
        if gaps:
            connection.execute(insert(trail_gaps), gaps)

    def _beside(self, connection: Connection, gaps: Sequence[Gap]) -> Sequence[Gap]:
        """Returns the recorded gaps that end right before one of these gaps, or begin right after one."""
        beside: dict[int, Gap] = {}
        for start in range(0, len(gaps), _AT_ONCE):
            some = gaps[start : start + _AT_ONCE]
            touches = or_(
                trail_gaps.c.last.in_([gap.first - 1 for gap in some]),
                trail_gaps.c.first.in_([gap.last + 1 for gap in some]),
            )
            rows = connection.execute(select(trail_gaps.c.first, trail_gaps.c.last, trail_gaps.c.link).where(touches))
            beside.update((row.first, Gap(first=row.first, last=row.last, link=bytes(row.link))) for row in rows)
        return list(beside.values())

    def _compare(self, connection: Connection, head: Head) -> None:
        """Raises `ChainError` if the trail is shorter than this process has seen it: an older copy took its place."""
        transaction = connection.get_transaction()
        if transaction is self._transaction:
            return
        last = self._last
        if last is not None and (
            head.trail != last.trail
            or head.position < last.position
            or (head.position == last.position and not same(head.link, last.link))
        ):
            raise ChainError(
                f"the trail ended at row {last.position} a moment ago and now ends at row {head.position}; {_ADVICE}"
            )
        self._last, self._transaction = head, transaction


def read_head(connection: Connection, *, lock: bool = False) -> tuple[Head, bytes | None]:
    """Returns the head and its seal. `lock`: other transactions that lock it wait until this one ends. Raises `ChainError` if
    there is no head."""
    if (
        lock and connection.dialect.name == "sqlite"
    ):  # the transaction has the lock; SQLAlchemy would take ten times the time
        driver: Any = connection.connection.driver_connection
        row = driver.execute(_READ).fetchone()
    else:
        row = connection.exec_driver_sql(f"{_READ} FOR UPDATE" if lock else _READ).first()
    if row is None:
        raise ChainError(f"the head of the trail is missing; {_ADVICE}")
    trail, first, position, link, key_id, seal = row
    return Head(trail=trail, first=first, position=position, link=link, key_id=key_id), seal


def write_head(connection: Connection, head: Head, sealer: Sealer) -> None:
    """Writes the head and its seal."""
    row = {
        "new_position": head.position,
        "new_link": head.link,
        "new_key_id": head.key_id,
        "new_seal": sealer.head(head),
    }
    _ADVANCE.execute(connection, [row])


def key_refusal(of_head: str, own: str) -> str:
    """Returns the error for a trail that is sealed with another key than the settings name."""
    if not own:
        return f"the trail is sealed with key {of_head}; set audit.key_env to the variable that holds this key"
    if not of_head:
        return (
            f"the trail is sealed without a key, and audit.key_env names key {own}: either it is older than the key, or "
            "somebody who does not have the key wrote it anew. If a key has sealed this trail before, it is forged: put back "
            "a copy. If none has, stop all processes and run `toolcaddie audit rekey --anchor FILE`, or "
            "`toolcaddie audit rekey --accept-unsealed` if there is no anchor of it"
        )
    return (
        f"the trail is sealed with key {of_head}, and audit.key_env names key {own}; name the right variable, or change "
        "the key with `toolcaddie audit rekey --from-env VARIABLE`"
    )


_ADVICE = "`toolcaddie audit verify` shows what changed"


def _joined(gaps: Sequence[Gap]) -> list[Gap]:
    """Returns gaps in which neighbours are one, from gaps in the order of their ids."""
    joined: list[Gap] = []
    starts = [0, *(n for n, (one, other) in enumerate(pairwise(gaps), start=1) if one.last + 1 != other.first)]
    for start, behind in pairwise([*starts, len(gaps)]):
        if behind > start:
            joined.append(replace(gaps[behind - 1], first=gaps[start].first))
    return joined
