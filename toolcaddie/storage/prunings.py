"""Prunings: the runs that may be removed, and the record of what was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, exists, insert, or_, select, update

from toolcaddie.storage.runs import RUN
from toolcaddie.storage.tables import documents, events, prunings, runs

NOT_ENDED = ("running", "pending")
"""Status of runs that have not ended."""
RECORDED = ("at", "by", "cutoff", "runs", "events", "first_event", "last_event")
"""The columns of `prunings` that a record shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Counts of what a pruning removed."""

    runs: int = 0
    events: int = 0
    """Rows of the trail of these runs."""
    documents: int = 0
    """Documents that had expired."""

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            runs=self.runs + other.runs, events=self.events + other.events, documents=self.documents + other.documents
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The record of a pruning that removed runs."""

    at: float
    """Moment of the pruning, in seconds since the epoch."""
    by: str
    """Person and program that pruned."""
    cutoff: float
    """Runs that ended before this moment, in seconds since the epoch, were removed."""
    runs: int
    events: int
    first_event: int
    """Lowest id removed from the table `events`."""
    last_event: int
    """Highest id removed from the table `events`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The progress of a pruning."""

    at: float
    by: str
    cutoff: float
    batch: int
    """Number of runs removed in one transaction."""
    pause: float
    """Seconds between two transactions, for other writers."""
    late: float
    """Seconds for which runs may stay longer, if their whole partition is removed then."""
    before: float
    """Runs that started later stay: at most `cutoff`."""
    after: float | None = None
    """Start of the last run that was removed; runs that started earlier are done."""
    record: int | None = None
    """Id of the pruning's row in `prunings`; None until a run is removed."""


def ended_runs(cutoff: float, now: float, *, few: bool = False) -> Any:
    """Selects the runs that ended before `cutoff`. `few`: only some are wanted, so that PostgreSQL must look each of them up
    in the trail, and not read the whole trail.

    A run stays if it has a row after `cutoff`, if a process owns it, if it is running or waiting, or if it is stored to be
    resumed.
    """
    later = select(events.c.id).where(events.c.run_id == runs.c.run_id, events.c.at >= cutoff)
    active = exists(later.correlate(runs).offset(0)) if few else exists(later)
    stored = exists().where(
        documents.c.kind == RUN,
        documents.c.key == runs.c.run_id,
        or_(documents.c.expires.is_(None), documents.c.expires > now),
    )
    ended = and_(
        runs.c.started < cutoff,
        runs.c.status.not_in(NOT_ENDED),
        runs.c.owner.is_(None),
        ~active,
        ~stored,
    )
    return select(runs.c.run_id, runs.c.started).where(ended)


def record_pruning(connection: Connection, step: Step, done: Pruned, first: int, last: int) -> int:
    """Adds a batch to the pruning's row and returns the row's id."""
    if step.record is None:
        row = {"at": step.at, "by": step.by, "cutoff": step.cutoff, "runs": done.runs, "events": done.events}
        statement = insert(prunings).values(**row, first_event=first, last_event=last).returning(prunings.c.id)
        return int(connection.execute(statement).scalar_one())
    extremes = select(prunings.c.first_event, prunings.c.last_event).where(prunings.c.id == step.record)
    before = connection.execute(extremes).one()
    connection.execute(
        update(prunings)
        .where(prunings.c.id == step.record)
        .values(
            runs=prunings.c.runs + done.runs,
            events=prunings.c.events + done.events,
            first_event=min(before.first_event, first),
            last_event=max(before.last_event, last),
        )
    )
    return step.record
