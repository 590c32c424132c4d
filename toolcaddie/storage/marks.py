"""Marks that tell whether a transaction was committed whose connection broke during the commit.

Each writer has one row, which its transactions change before their commit is sent. Whoever asks afterwards waits for a
transaction that the server still works on, although the connection that sent it is lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, text

from toolcaddie.storage.tables import commit_marks

_WEEK_SECONDS = 7 * 86_400
_KEPT_WEEKS = 4
"""Weeks after which the mark of a writer that has not written since is removed."""
_ID_BYTES = 12
_DUE = "toolcaddie_due_mark"
"""Name of the mark, in the information of a connection, that its transaction must still leave."""
LEAVE_MARK = (
    "INSERT INTO commit_marks (writer, mark, week) VALUES (:writer, :mark, :week) "
    "ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, week = excluded.week"
)
"""The statement that writes a mark."""
_LEAVE = text(LEAVE_MARK)
# It is an insert, because a select would not wait for the first mark of a writer, whose row nobody else can see yet.
_LAST = text(
    "INSERT INTO commit_marks AS own (writer, mark, week) VALUES (:writer, 0, :week) "
    "ON CONFLICT (writer) DO UPDATE SET mark = own.mark RETURNING mark"
)
_OLD = delete(commit_marks).where(commit_marks.c.week < bindparam("before"))


class Marks:
    """The marks of one writer, which nobody else changes."""

    def __init__(self) -> None:
        self._writer = os.urandom(_ID_BYTES).hex()
        self._number = 0

    def next(self) -> Mark:
        """Returns the mark of a further transaction."""
        self._number += 1
        return Mark(writer=self._writer, number=self._number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The mark of one transaction."""

    writer: str
    number: int

    def announce(self, connection: Connection) -> None:
        """Says, at the beginning of its transaction, that the mark must be left in it."""
        connection.info[_DUE] = self

    def leave(self, connection: Connection) -> None:
        """Leaves the mark, at the end of its transaction, unless a statement of the transaction has done so."""
        if connection.info.pop(_DUE) is None:
            return
        row = self.row()
        if self.number == 1:
            connection.execute(_OLD, {"before": row["week"] - _KEPT_WEEKS})
        connection.execute(_LEAVE, row)

    def row(self) -> Mapping[str, Any]:
        """Returns the mark as a row of the table `commit_marks`."""
        return {"writer": self.writer, "mark": self.number, "week": int(time.time()) // _WEEK_SECONDS}

    def is_committed(self, connection: Connection) -> bool:
        """Returns True if the transaction was committed, which is certain: it waits for one that is still under way."""
        return bool(connection.execute(_LAST, self.row()).scalar_one() == self.number)


def due_mark(connection: Connection) -> Mapping[str, Any] | None:
    """Returns the row of the mark of this transaction, which the caller must write; None: there is none to write."""
    mark: Mark | None = connection.info.get(_DUE)
    if mark is None or mark.number == 1:
        return None
    connection.info[_DUE] = None
    return mark.row()
