"""The parts of a job as people read them, for the command line and the console."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcaddie.core.jobs import At, Every, Job


def schedule_text(job: Job) -> str:
    """Returns when a job runs, on one line."""
    match job.schedule:
        case At(at=at):
            return f"once at {at}"
        case Every(every_ms=every):
            return f"every {every / 1000:g} s"
        case _:
            return job.schedule.expr


def rest_text(job: Job) -> str:
    """Returns why a job has no next run; empty: it has one."""
    if job.enabled:
        return ""
    return "ended" if job.is_once and job.status else "paused"


def outcome_text(job: Job, *, is_served: bool) -> str:
    """Returns the state of a job that has begun, or else the outcome of its last run. `is_served`: True if a server runs jobs."""
    if job.current is None:
        return job.status
    return "running" if is_served else "waiting"


def job_record(job: Job) -> dict[str, Any]:
    """Returns a job as JSON, without what its runs inherit except taint and tools."""
    return {name: value for name, value in msgspec.to_builtins(job).items() if name != "inherited"} | {
        "taint": job.taint,
        "tools": job.inherited.tools,
    }
