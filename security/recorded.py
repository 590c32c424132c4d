"""Reads from a database what is wrong after a kill. It uses plain SQL, so that the code under attack does not judge itself."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from security.counted import Count, none_of
from security.goals import Goal
from security.model import ASKED

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


def unrecorded(book: Book, kind: str) -> Sequence[str]:
    """Returns the entries that were written without a record of this kind in the trail."""
    recorded = {
        entry
        for (data,) in book.rows(f"select data from events where kind = '{kind}'")
        if (entry := json.loads(json.loads(str(data))["arguments"]).get("entry"))
    }
    return sorted(set(book.entries()) - recorded)


def with_gaps(book: Book) -> Sequence[str]:
    """Returns the runs of whose rows one is missing in the middle. Two processes that write about a run at the same moment, one
    a person's answer and one that it was resumed, may give both rows the same number; nothing is missing then."""
    rows = book.rows("select run_id from events group by run_id having count(distinct seq) <> max(seq)")
    return [str(run_id) for (run_id,) in rows]


def cut_short(book: Book, answered: Collection[str]) -> Sequence[str]:
    """Returns the answered requests whose run lacks a row: its end, or the decision, the intent or the result of a call.
    `answered`: the texts of the requests."""
    kinds: dict[str, Counter[str]] = {}
    for message, kind, number in book.rows(
        "select message, kind, count(*) from runs join events on events.run_id = runs.run_id group by message, kind"
    ):
        kinds.setdefault(str(message), Counter())[str(kind)] += int(str(number))
    return [text for text in sorted(answered) if not _is_whole(text, kinds.get(text, Counter()))]


def _is_whole(text: str, kinds: Counter[str]) -> bool:
    """Returns True if these rows are those of a whole run: each entry is decided, intended and written, then all are counted."""
    asked = ASKED.match(text)
    assert asked is not None, text
    entries = int(asked["entries"])
    return (
        kinds["run_finished"] >= 1
        and kinds["call_decided"] >= entries + 1
        and kinds["call_finished"] >= entries + 1
        and kinds["call_intended"] >= entries
    )


def of_all_runs(book: Book, living: Sequence[int], *, what: str) -> Sequence[Count]:
    """Returns the counts that must be 0 at every moment, from some seconds after the last start of a process."""
    return [
        none_of(f"{what}: runs that are running without a living owner", ownerless(book, living)),
        none_of(f"{what}: runs that are pending and cannot be resumed", stuck(book)),
        none_of(f"{what}: calls that are neither done, failed nor unknown", open_calls(book)),
        none_of(f"{what}: effects without an intent on record", unrecorded(book, "call_intended")),
        none_of(f"{what}: effects without a decision on record", unrecorded(book, "call_decided")),
        none_of(f"{what}: runs with a lost row between others", with_gaps(book)),
    ]


def few_unknown(book: Book, most: int) -> Goal:
    """Returns the goal that not more calls are unknown than can have been under way at the kills."""
    unknown = book.number("select count(*) from events where kind = 'call_unknown'")
    return Goal(
        name="calls whose outcome is unknown",
        figure=f"{unknown:,}",
        goal=f"at most {most:,}, the calls that can have been under way at the kills",
        met=unknown <= most,
    )


def calls_made(book: Book) -> int:
    """Returns the number of calls that were decided."""
    return book.number("select count(*) from events where kind = 'call_decided'")


def _pid(label: object) -> int:
    return int(str(label).rsplit(" ", 1)[-1])
