"""Jobs in words: what a model reads in the results of `cron`, and a person in the preview of a call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from toolcaddie.core.jobs import Job
from toolcaddie.core.tool import ToolResult

_SHOWN = 80
"""Characters of the reason of a failure in a list."""


def preview_of(job: Job, moments: Sequence[float]) -> str:
    """Returns what a person reads who is asked about a new job. `moments`: its next slots."""
    what = (
        "sends this message" if job.kind == "message" else f"lets the bot {job.owner.bot or ''} follow this instruction"
    )
    after = " and is then deleted" if job.delete_after_run else ""
    return f"the job {job.name!r} {what} at {_local_times(moments, job)}{after}:\n{job.text}"


def description_of(verb: str, job: Job, moments: Sequence[float]) -> ToolResult:
    """Returns the result that describes one job. `verb`: what was done with it; empty: nothing. `moments`: its next slots."""
    return ToolResult(
        content=f"{verb} {line_of(job, moments)}.".strip(),
        structured={**values_of(job), "nextRuns": [local_time(moment, job) for moment in moments]},
    )


def line_of(job: Job, moments: Sequence[float] = ()) -> str:
    """Returns a job in one line. `moments`: its next slots; without them, only the next one is shown."""
    next_slots = moments or ([] if job.next is None else [job.next])
    state = f"next {_local_times(next_slots, job)}" if next_slots else "disabled"
    outcome = (
        f", last run {job.status}{f': {job.note[:_SHOWN]}' if job.status == 'failed' else ''}" if job.status else ""
    )
    return f"{job.id} {job.name!r} ({job.kind}): {state}{outcome}"


def values_of(job: Job) -> dict[str, Any]:
    """Returns a job as the structured part of a result."""
    return {
        "jobId": job.id,
        "name": job.name,
        "kind": job.kind,
        "text": job.text,
        "enabled": job.enabled,
        "next": None if job.next is None else local_time(job.next, job),
        "lastStatus": job.status,
    }


def local_time(moment: float, job: Job) -> str:
    """Returns a moment in the zone of a job."""
    return _local_times([moment], job)


def _local_times(moments: Sequence[float], job: Job) -> str:
    zone = ZoneInfo(job.zone)
    times = (datetime.fromtimestamp(moment, zone).isoformat(sep=" ", timespec="seconds") for moment in moments)
    return f"{', '.join(times)} ({zone.key})"
