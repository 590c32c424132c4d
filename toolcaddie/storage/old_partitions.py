"""Old partitions of the trail: which rows must stay if a partition is removed whole."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import Connection, text

from toolcaddie.storage.chain import read_head
from toolcaddie.storage.partitions import partitions
from toolcaddie.storage.prunings import NOT_ENDED, Step
from toolcaddie.storage.runs import RUN
from toolcaddie.util.replacing import replace

MOST_STAYING = 20_000
"""Largest number of rows that are put back: they are written while others wait. At most a quarter of a partition's rows are."""

# Later rows of a run can only follow rows of these kinds, or another start of the run.
_CONTINUED = (
    "run_paused",
    "run_resumed",
    "approval_closed",
    "approval_applied",
    "call_unknown",
    "call_settled",
)
_ENDED = ("run_finished", "run_failed")
_FIRST_AND_LAST = """
SELECT one.at, other.at, one.id, other.id FROM
    (SELECT id, at FROM {table} ORDER BY id LIMIT 1) AS one, (SELECT id, at FROM {table} ORDER BY id DESC LIMIT 1) AS other
"""
# `OFFSET 0` keeps PostgreSQL from reading the whole trail into a hash table for it.
_STAYING = """
SELECT part.run_id, part.number FROM (
    SELECT run_id, count(*) AS number, max(at) AS latest, max(at) FILTER (WHERE kind = 'run_started') AS started,
        bool_or(kind = ANY(:ended)) AS is_ended, bool_or(kind = ANY(:continued)) AS is_continued
    FROM {table} GROUP BY run_id
) AS part
LEFT JOIN runs ON runs.run_id = part.run_id
LEFT JOIN documents ON documents.kind = :stored AND documents.key = part.run_id
    AND (documents.expires IS NULL OR documents.expires > :now)
WHERE (
    part.latest < :cutoff AND part.is_ended AND part.started IS NOT NULL AND documents.key IS NULL
    AND (runs.run_id IS NULL OR (runs.started = part.started AND runs.status <> ALL(:open) AND runs.owner IS NULL))
    AND (NOT part.is_continued OR NOT EXISTS (
        SELECT 1 FROM events WHERE events.run_id = part.run_id AND (events.id < :first OR events.id > :last) OFFSET 0
    ))
) IS NOT TRUE LIMIT :most
"""


class OldPartition(Struct, frozen=True, kw_only=True):
    """A partition with rows, by the ids and the moments of the first and the last one."""

    table: str
    first: int
    last: int
    since: float
    until: float
    rows: int = 0
    staying: Sequence[str] = ()
    """Ids of runs whose rows stay."""


def closed_partitions(connection: Connection) -> Sequence[OldPartition]:
    """Returns the partitions that have rows and get no new ones, the oldest first."""
    position = read_head(connection)[0].position
    closed = []
    for part in partitions(connection):
        row = connection.execute(text(_FIRST_AND_LAST.format(table=part.table))).first()
        if part.until <= position + 1 and row is not None:
            since, until, first, last = row
            closed.append(OldPartition(table=part.table, first=first, last=last, since=since, until=until))
    return closed


def with_staying(connection: Connection, *, part: OldPartition, step: Step) -> OldPartition | None:
    """Returns a partition with the runs that stay, or None if too many do."""
    rows = connection.execute(text(f"SELECT count(*) FROM {part.table}")).scalar_one()
    most = min(MOST_STAYING, rows // 4)
    values = {
        "ended": list(_ENDED),
        "continued": list(_CONTINUED),
        "open": list(NOT_ENDED),
        "stored": RUN,
        "now": step.at,
        "cutoff": step.cutoff,
        "first": part.first,
        "last": part.last,
        "most": most + 1,
    }
    staying = connection.execute(text(_STAYING.format(table=part.table)), values).all()
    if sum(row.number for row in staying) > most:
        return None
    return replace(part, rows=rows, staying=[row.run_id for row in staying])
