"""Rows of jobs and slots as values, and values as rows."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Row

from toolcaddie.core.jobs import Job, JobOutcome, Slot, milliseconds

_STATE = ("enabled", "next", "current", "last", "status", "note", "failures")
"""Fields of a job with columns of their own; the others do not change."""
_LONGEST_NOTE = 2_000


def ending_values(slot: Slot, outcome: JobOutcome, now: float) -> dict[str, Any]:
    """Returns the parameters with which a slot, and its job, end."""
    return {
        "of_job": slot.job,
        "of_slot": slot.milliseconds,
        "outcome": "done" if outcome.succeeded else "failed",
        "now": now,
        "because": stored_note(outcome.note),
        "counts": int(not outcome.succeeded),
        "more": int(not slot.manual),
    }


def job_row(job: Job) -> dict[str, Any]:
    """Returns the row of a new job."""
    return {
        "id": job.id,
        "tenant": job.owner.tenant,
        "bot": job.owner.bot or "",
        "owner": job.owner.id,
        "data": msgspec.json.encode(job),
        "enabled": int(job.enabled),
        "next": moment_ms(job.next),
        "current": None,
        "last": None,
        "status": job.status,
        "note": job.note,
        "failures": job.failures,
    }


def job_of(row: Row[Any]) -> Job:
    state = {name: getattr(row, name) for name in _STATE}
    moments = {name: None if state[name] is None else state[name] / 1000 for name in ("next", "current", "last")}
    job = msgspec.json.decode(bytes(row.data), type=Job)
    return msgspec.structs.replace(job, **state | moments | {"enabled": bool(row.enabled)})


def slot_row(job_id: str, slot: int, *, lease: int | None, manual: bool = False) -> dict[str, Any]:
    return {
        "job": job_id,
        "slot": slot,
        "manual": int(manual),
        "status": "waiting",
        "lease": lease,
        "began": None,
        "ended": None,
        "note": "",
        "starts": 0,
    }


def slot_of(row: Row[Any]) -> Slot:
    return Slot(
        job=row.job,
        at=row.slot / 1000,
        manual=bool(row.manual),
        status=row.status,
        began=row.began,
        ended=row.ended,
        note=row.note,
        starts=row.starts,
    )


def stored_note(note: str) -> str:
    return note[:_LONGEST_NOTE].replace("\0", "\ufffd")


def moment_ms(moment: float | None) -> int | None:
    return None if moment is None else milliseconds(moment)
