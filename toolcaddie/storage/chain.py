"""Adds rows to the trail, each linked to the row before.

There is one chain for all processes of a database. Its head is a row of its own. A transaction that adds rows locks that row
first: SQLite has one writer in any case, and on PostgreSQL the processes take turns. So the ids of the rows have no gaps, and a
missing row is noticed. The cost is two statements for each group of rows, and one hash for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, literal_column, update

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.partitions import ROWS, Room
from toolcaddie.storage.seals import Head, Sealer, same
from toolcaddie.storage.tables import events, trail_head
from toolcaddie.util.replacing import replace

HEAD = "trail, first, position, link, key_id, seal"
"""The columns of a head."""
_READ = f"SELECT {HEAD} FROM trail_head WHERE id = 1"
_INSERT = CompiledStatement(insert(events), ("id", "run_id", "seq", "at", "kind", "data", "link"))
_CHANGED = ("position", "link", "key_id", "seal")
_ADVANCE = CompiledStatement(
    update(trail_head)
    .where(trail_head.c.id == literal_column("1"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)

Locked = tuple[Head, bytes | None]
"""A head and its seal."""


class ChainError(StorageError):
    """The head of the chain is missing, was changed, or is sealed with another key, so nothing may be added to it."""


class Chain:
    """Writes the rows of the trail. All methods run within a transaction of the writer. `partition_rows`: the smallest number
    of rows of a partition."""

    def __init__(self, sealer: Sealer, *, partition_rows: int = ROWS) -> None:
        self.sealer = sealer
        self.room = Room(partition_rows)
        self._last: Head | None = None
        """The head that this process has seen on disk most recently."""
        self._transaction: Any = None
        """The transaction in which `_last` was read. The head read again in it may not be on disk yet."""

    def linked(self, rows: Sequence[Mapping[str, Any]], head: Head) -> tuple[Sequence[Mapping[str, Any]], Head]:
        """Returns rows of the table `events` with the ids and links that they get behind the locked head, and the next head."""
        position, link = head.position, head.link
        linked: list[Mapping[str, Any]] = []
        for row in rows:
            position += 1
            link = self.sealer.link(link, (position, row["run_id"], row["seq"], row["at"], row["kind"], row["data"]))
            linked.append({**row, "id": position, "link": link})
        return linked, replace(head, position=position, link=link, key_id=self.sealer.key_id)

    def append(self, connection: Connection, rows: Sequence[Mapping[str, Any]], head: Head) -> None:
        """Inserts rows of the table `events` in this order behind the locked head."""
        linked, next_head = self.linked(rows, head)
        _INSERT.execute(connection, linked)
        write_head(connection, next_head, self.sealer)

    def begin(self, connection: Connection) -> None:
        """Seals the head of a new database, so that nobody without the key can put an empty chain in the place of this one."""
        head, _ = read_head(connection)
        write_head(connection, self.sealer.begun(head), self.sealer)

    def lock(self, connection: Connection, locked: Locked | None = None) -> Head:
        """Returns the head. No other process can add or prune rows until the transaction ends. `locked`: the head and its seal,
        if this transaction has locked it already.

        Raises `ChainError` if the head was changed by another program than Toolcaddie: a new row would cover that up.
        """
        head, seal = read_head(connection, lock=True) if locked is None else locked
        if head.is_unsealed and not seal and not self.sealer.key_id:
            head = self.sealer.begun(head)
        elif head.key_id != self.sealer.key_id:
            raise ChainError(key_refusal(head.key_id, self.sealer.key_id))
        elif not same(seal, self.sealer.head(head)):
            raise ChainError(f"the head of the trail was changed; {_ADVICE}")
        self._compare(connection, head)
        self.room.keep(connection, head.position)
        return head

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


def read_head(connection: Connection, *, lock: bool = False) -> Locked:
    """Returns the head and its seal. `lock`: other transactions that lock it wait until this one ends. Raises `ChainError` if
    there is no head."""
    if (
        lock and connection.dialect.name == "sqlite"
    ):  # the transaction has the lock; SQLAlchemy would take ten times the time
        driver: Any = connection.connection.driver_connection
        row = driver.execute(_READ).fetchone()
    else:
        row = connection.exec_driver_sql(f"{_READ} FOR UPDATE" if lock else _READ).first()
    return head_of(row)


def head_of(row: Sequence[Any] | None) -> Locked:
    """Returns the head and its seal from the columns of `HEAD`. Raises `ChainError` if there is no row."""
    if row is None:
        raise ChainError(f"the head of the trail is missing; {_ADVICE}")
    trail, first, position, link, key_id, seal = row
    return Head(trail=trail, first=first, position=position, link=link, key_id=key_id), seal


def write_head(connection: Connection, head: Head, sealer: Sealer) -> None:
    """Writes the head and its seal."""
    _ADVANCE.execute(connection, [{f"new_{name}": value for name, value in head_values(head, sealer).items()}])


def head_values(head: Head, sealer: Sealer) -> Mapping[str, Any]:
    """Returns the columns of a head that change when rows are added."""
    return dict(zip(_CHANGED, (head.position, head.link, head.key_id, sealer.head(head)), strict=True))


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
