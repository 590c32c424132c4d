"""The jobs of a bot: their list, and each job with its next and last runs. An operator pauses, resumes and runs it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import Job
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, BotDesk, field, tenant_of
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.doors.job_sheets import job_record, outcome_text, rest_text, schedule_text


def job_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages and forms."""

    async def find(visit: Visit) -> Job:
        """Returns the job of a page. One of another bot or tenant does not exist here."""
        job_id = field(visit, "job")
        job = await desk.jobs.get(job_id)
        if (job.owner.tenant, job.owner.bot) != (tenant_of(visit), desk.bot(visit)):
            raise RequestError(f"there is no job {job_id[:64]!r}", param="job", code="unknown_job")
        return job

    async def jobs(visit: Visit) -> Answer:
        all_jobs = await desk.jobs.list(tenant=tenant_of(visit), bot=desk.bot(visit))
        is_served = await desk.jobs.is_served()
        data = {"jobs": [_shown(job, is_served=is_served) for job in all_jobs], "is_served": is_served}
        return desk.page("jobs", visit, data)

    async def job(visit: Visit) -> Answer:
        stored = await find(visit)
        is_served = await desk.jobs.is_served()
        data = {
            "job": _shown(stored, is_served=is_served),
            "is_served": is_served,
            "next_times": desk.jobs.next_times(stored),
            "runs": await desk.jobs.slots(stored.id),
        }
        return desk.page("job", visit, data)

    async def pause(visit: Visit) -> Answer:
        stored = await find(visit)
        await desk.jobs.switch(stored.id, enabled=False)
        return desk.done(visit, "paused", "job", job=stored.id)

    async def resume(visit: Visit) -> Answer:
        stored = await find(visit)
        await desk.jobs.switch(stored.id, enabled=True)
        return desk.done(visit, "resumed", "job", job=stored.id)

    async def run(visit: Visit) -> Answer:
        stored = await find(visit)
        await desk.jobs.run(stored.id)
        return desk.done(visit, "asked", "job", job=stored.id)

    return (
        PageRoute(method="GET", path=f"{ONE}/jobs", handle=jobs),
        PageRoute(method="GET", path=f"{ONE}/job", handle=job),
        PageRoute(method="POST", path=f"{ONE}/pause", handle=pause, level="operator"),
        PageRoute(method="POST", path=f"{ONE}/resume", handle=resume, level="operator"),
        PageRoute(method="POST", path=f"{ONE}/run", handle=run, level="operator"),
    )


def _shown(job: Job, *, is_served: bool) -> dict[str, object]:
    """Returns a job as its pages and programs see it."""
    return job_record(job) | {
        "schedule_text": schedule_text(job),
        "rest": rest_text(job),
        "outcome": outcome_text(job, is_served=is_served),
    }
