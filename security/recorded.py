"""What a database says of its runs, read by plain SQL: no code that is under attack judges itself here."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from security.counted import Count, none_of

_ENDED = ("call_finished", "call_unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A database, and the file of effects beside it."""

    database: Path
    effects: Path

    def entries(self) -> Sequence[str]:
        return self.effects.read_text().split() if self.effects.exists() else []

    def rows(self, statement: str) -> Sequence[tuple[object, ...]]:
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def number(self, statement: str) -> int:
        return int(str(self.rows(statement)[0][0]))


def ownerless(book: Book, living: Sequence[int]) -> Sequence[str]:
    """Runs that stand as running while no process of these ids lives that owns them."""
    owners = {number for number, label in book.rows("select number, label from owners") if _pid(label) in living}
    rows = book.rows("select run_id, owner from runs where status = 'running'")
    return [str(run_id) for run_id, owner in rows if owner not in owners]


def stuck(book: Book) -> Sequence[str]:
    """Runs that stand as pending and have no stored state to be resumed from."""
    return [
        str(run_id)
        for (run_id,) in book.rows(
            "select run_id from runs where status = 'pending' and not exists "
            "(select 1 from documents where kind = 'run' and key = run_id)"
        )
    ]


def open_calls(book: Book) -> Sequence[str]:
    """Calls of runs that are over, or wait, which were intended and have no end on record."""
    still: dict[tuple[str, str], None] = {}
    rows = book.rows(
        "select events.run_id, kind, data from events join runs on runs.run_id = events.run_id "
        "where kind in ('call_intended', 'call_finished', 'call_unknown') and status <> 'running' order by id"
    )
    for run_id, kind, data in rows:
        key = (str(run_id), json.loads(str(data))["id"])
        if kind in _ENDED:
            still.pop(key, None)
        else:
            still[key] = None
    return [f"{run_id} {call}" for run_id, call in still]


def doubled(book: Book) -> Sequence[str]:
    """Entries that were written more than once."""
    return [entry for entry, times in Counter(book.entries()).items() if times > 1]


def unrecorded(book: Book) -> Sequence[str]:
    """Entries that were written though no intent says so."""
    intended = {
        json.loads(json.loads(str(data))["arguments"])["entry"]
        for (data,) in book.rows("select data from events where kind = 'call_intended'")
    }
    return sorted(set(book.entries()) - intended)


def of_all_runs(book: Book, living: Sequence[int], *, what: str) -> Sequence[Count]:
    """The promises that hold at every moment, some seconds after the last start."""
    return [
        none_of(f"{what}: runs that are running without a living owner", ownerless(book, living)),
        none_of(f"{what}: runs that are pending and cannot be resumed", stuck(book)),
        none_of(f"{what}: calls that are neither done, failed nor unknown", open_calls(book)),
        none_of(f"{what}: effects without an intent on record", unrecorded(book)),
    ]


def _pid(label: object) -> int:
    return int(str(label).rsplit(" ", 1)[-1])
