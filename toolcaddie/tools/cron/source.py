"""The source `cron`: the tool `cron`, by which a bot makes, lists, removes and runs jobs for the person it talks to.

[[source]]
type = "cron"

A job has no more permissions than the run that made it: its runs have only the tools that this run could use, and its taint. A
person who is asked about a call reads in its preview when the job will run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.jobs import Job
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Spent, ToolAnnotations, ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.ports.jobs import Jobs
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.cron.arguments import job_id_of, new_job
from toolcaddie.tools.cron.shown import description_of, line_of, preview_of, values_of
from toolcaddie.util.replacing import replace

NAME = "cron"

Action = Literal["add", "list", "remove", "run", "status"]

_CATEGORY = Category(
    name="schedule",
    description="Reminders and tasks at set times.",
    keywords=(
        "remind",
        "reminder",
        "schedule",
        "every",
        "daily",
        "weekly",
        "tomorrow",
        "recordar",
        "cada",
        "programar",
    ),
)
_IDS = "action list shows the ids"
_READS = ToolAnnotations(read_only=True, open_world=False)
_ADDS = ToolAnnotations(read_only=False, destructive=False, open_world=False)
_ACTS = ToolAnnotations(read_only=False, destructive=True, open_world=False)


def cron(*, parts: Parts) -> FunctionSource:
    """Returns the source. Raises `ConfigError` if the host runs no jobs."""
    if parts.jobs is None:
        raise ConfigError(
            "source 'cron': this host runs no jobs; remove the source, or use a server with a database on disk"
        )
    tools = CronTool(parts.jobs)
    return FunctionSource("cron", [tools.cron], [_CATEGORY], claims=[NAME], assess=tools.assess)


@dataclass(frozen=True, slots=True)
class CronTool:
    """The tool, as a method."""

    jobs: Jobs

    @tool(category="schedule", hints=("remind", "later", "every day", "timer"), destructive=True, open_world=False)
    async def cron(
        self,
        context: RunContext,
        action: Action,
        name: Annotated[str, Field(description="A short name for people")] = "",
        text: Annotated[str, Field(description="The message to send, or the instruction to follow")] = "",
        kind: Annotated[
            Literal["message", "instruction", "at", "every", "cron"],
            Field(description="message: the text is sent as it is; instruction: you follow it then, with your tools"),
        ] = "message",
        schedule: Annotated[
            dict[str, Any] | None,
            Field(
                description="{kind: 'at', at: ISO 8601} once; {kind: 'every', everyMs: milliseconds}; "
                "{kind: 'cron', expr: five fields, tz: IANA zone}"
            ),
        ] = None,
        deleteAfterRun: Annotated[bool, Field(description="Delete a job of kind at after it succeeded")] = False,
        jobId: Annotated[str, Field(description="The job to remove or run, or whose status to show")] = "",
        includeDisabled: Annotated[bool, Field(description="List disabled jobs too")] = False,
        id: Annotated[str, Field(description="The same as jobId")] = "",  # noqa: A002  models write it
        at: str | None = None,
        everyMs: int | None = None,
        every: int | None = None,
        expr: str | None = None,
        tz: str | None = None,
    ) -> ToolResult:
        """Make, list, remove or run reminders and tasks at set times."""
        arguments = {key: value for key, value in locals().items() if key not in ("self", "context")}
        try:
            return await self._done(action, arguments, context)
        except RequestError as error:
            return failed(str(error), "invalid_arguments", own_words=True)

    async def assess(self, name: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns what a call would do. A person is asked about a new job, or a removal, in a run that has read what
        strangers wrote, and about every run out of turn."""
        try:
            return await self._judged(arguments, context)
        except RequestError as error:
            return Assessment(refusal=str(error))

    async def _judged(self, arguments: dict[str, Any], context: RunContext) -> Assessment:
        match arguments["action"]:
            case "add":
                job = self.jobs.check(new_job(arguments, context))
                return Assessment(
                    annotations=_ACTS if job.taint else _ADDS, preview=preview_of(job, self.jobs.next_times(job))
                )
            case "remove" | "run" as action:
                job = await self._job(arguments, context)
                verb = "removes" if action == "remove" else "runs now"
                is_doubtful = action == "run" or bool(context.taint)
                return Assessment(
                    annotations=_ACTS if is_doubtful else _ADDS,
                    preview=f"{verb} the job {job.name!r} ({job.kind}): {job.text}",
                )
            case _:
                return Assessment(annotations=_READS)

    async def _done(self, action: Action, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        match action:
            case "add":
                job = await self.jobs.add(new_job(arguments, context))
                return description_of("Added", job, self.jobs.next_times(job))
            case "remove":
                job = await self.jobs.remove((await self._job(arguments, context)).id, by=context.principal)
                return ToolResult(content=f"Removed the job {job.name!r} ({job.id}).")
            case "run":
                job = await self._job(arguments, context)
                await self.jobs.run(job.id, by=context.principal)
                return ToolResult(content=f"The job {job.name!r} ({job.id}) begins now.")
            case "status":
                if job_id_of(arguments):
                    job = await self._job(arguments, context)
                    return replace(description_of("", job, self.jobs.next_times(job)), spent=_taint_of([job]))
                jobs = await self.jobs.list(by=context.principal)
                active = sum(job.enabled for job in jobs)
                served = "jobs are being run" if await self.jobs.is_served() else "no process runs jobs at the moment"
                return ToolResult(content=f"{active} active of {len(jobs)} jobs; {served}.")
            case _:
                jobs = await self.jobs.list(by=context.principal)
                shown = [job for job in jobs if job.enabled or arguments.get("includeDisabled")]
                nothing = (
                    "There are no active jobs; includeDisabled shows the others." if jobs else "There are no jobs."
                )
                return ToolResult(
                    content="\n".join(line_of(job) for job in shown) or nothing,
                    structured={"jobs": [values_of(job) for job in shown]},
                    spent=_taint_of(shown),
                )

    async def _job(self, arguments: dict[str, Any], context: RunContext) -> Job:
        job_id = job_id_of(arguments)
        if not job_id:
            raise RequestError(f"jobId: it is missing; {_IDS}", param="jobId")
        try:
            return await self.jobs.get(job_id, by=context.principal)
        except RequestError as error:
            raise RequestError(f"{error}; {_IDS}", param="jobId", code=error.code) from error


def _taint_of(jobs: Sequence[Job]) -> Spent:
    """Returns what a run has read that reads these jobs: whatever the runs that made them had read."""
    return Spent(taint=tuple(dict.fromkeys(name for job in jobs for name in job.taint)))
