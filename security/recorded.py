"""Reads from a database what is wrong after a kill. It uses plain SQL, so that the code under attack does not judge itself."""

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
    """A database, and the file of effects, to which the tools write one entry per call."""

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
    """Returns the runs with status `running` whose owner is not one of the living processes. `living`: their process ids."""
    owners = {number for number, label in book.rows("select number, label from owners") if _pid(label) in living}
    rows = book.rows("select run_id, owner from runs where status = 'running'")
    return [str(run_id) for run_id, owner in rows if owner not in owners]


def stuck(book: Book) -> Sequence[str]:
    """Returns the runs with status `pending` that have no stored state from which they could be resumed."""
    return [
        str(run_id)
        for (run_id,) in book.rows(
            "select run_id from runs where status = 'pending' and not exists "
            "(select 1 from documents where kind = 'run' and key = run_id)"
        )
    ]


def open_calls(book: Book) -> Sequence[str]:
    """Returns the calls that have an intent but no end in the trail, of runs that are not running."""
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
    """Returns the entries that were written more than once."""
    return [entry for entry, times in Counter(book.entries()).items() if times > 1]


def unrecorded(book: Book) -> Sequence[str]:
    """Returns the entries that were written without an intent in the trail."""
    intended = {
        json.loads(json.loads(str(data))["arguments"])["entry"]
        for (data,) in book.rows("select data from events where kind = 'call_intended'")
    }
    return sorted(set(book.entries()) - intended)


def of_all_runs(book: Book, living: Sequence[int], *, what: str) -> Sequence[Count]:
    """Returns the counts that must be 0 at every moment, from some seconds after the last start of a process."""
    return [
        none_of(f"{what}: runs that are running without a living owner", ownerless(book, living)),
        none_of(f"{what}: runs that are pending and cannot be resumed", stuck(book)),
        none_of(f"{what}: calls that are neither done, failed nor unknown", open_calls(book)),
        none_of(f"{what}: effects without an intent on record", unrecorded(book)),
    ]


def _pid(label: object) -> int:
    return int(str(label).rsplit(" ", 1)[-1])
