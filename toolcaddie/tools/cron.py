"""The source `cron`: the tool `cron`, by which a bot makes, lists, removes and runs jobs for the person it talks to.

[[source]]
type = "cron"

A job has no more permissions than the run that made it: its runs have only the tools that this run could use, and its taint. A
person who is asked about a call reads in its preview when the job will run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from toolcaddie.core.assessment import Assessment
from toolcaddie.core.bots import Inherited, chat_of
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.jobs import At, Cron, Every, Job, JobKind, NewJob, Schedule
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Spent, ToolAnnotations, ToolResult, failed
from toolcaddie.jobs.schedule import next_slot
from toolcaddie.parts import Parts
from toolcaddie.ports.jobs import Jobs
from toolcaddie.sources.functions import FunctionSource, tool
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
_READS = ToolAnnotations(read_only=True, open_world=False)
_ADDS = ToolAnnotations(read_only=False, destructive=False, open_world=False)
_ACTS = ToolAnnotations(read_only=False, destructive=True, open_world=False)
_SHOWN = 80


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
                job = self.jobs.check(_new_job(arguments, context))
                return Assessment(annotations=_ACTS if job.taint else _ADDS, preview=self._preview(job))
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

    def _preview(self, job: Job) -> str:
        times = ", ".join(_local(moment, job) for moment in self.jobs.next_times(job))
        what = (
            "sends this message"
            if job.kind == "message"
            else f"lets the bot {job.owner.bot or ''} follow this instruction"
        )
        after = " and is then deleted" if job.delete_after_run else ""
        return f"the job {job.name!r} {what} at {times}{after}:\n{job.text}"

    async def _done(self, action: Action, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        match action:
            case "add":
                job = await self.jobs.add(_new_job(arguments, context))
                return self._described("Added", job)
            case "remove":
                job = await self.jobs.remove((await self._job(arguments, context)).id, by=context.principal)
                return ToolResult(content=f"Removed the job {job.name!r} ({job.id}).")
            case "run":
                job = await self._job(arguments, context)
                await self.jobs.run(job.id, by=context.principal)
                return ToolResult(content=f"The job {job.name!r} ({job.id}) begins now.")
            case "status":
                if _job_id(arguments):
                    job = await self._job(arguments, context)
                    return replace(self._described("", job), spent=_taint_of([job]))
                jobs = await self.jobs.list(by=context.principal)
                active = sum(job.enabled for job in jobs)
                served = "jobs are being run" if await self.jobs.is_served() else "no process runs jobs at the moment"
                return ToolResult(content=f"{active} active of {len(jobs)} jobs; {served}.")
            case _:
                jobs = await self.jobs.list(by=context.principal)
                shown = [job for job in jobs if job.enabled or arguments.get("includeDisabled")]
                return ToolResult(
                    content="\n".join(_line(job) for job in shown) or "There are no jobs.",
                    structured={"jobs": [_values(job) for job in shown]},
                    spent=_taint_of(shown),
                )

    async def _job(self, arguments: dict[str, Any], context: RunContext) -> Job:
        job_id = _job_id(arguments)
        if not job_id:
            raise RequestError("jobId: it is missing; action list shows the ids", param="jobId")
        return await self.jobs.get(job_id, by=context.principal)

    def _described(self, verb: str, job: Job) -> ToolResult:
        times: Sequence[str] = [_local(moment, job) for moment in self.jobs.next_times(job)]
        runs = f"Next: {', '.join(times)}." if times else "It will not run again."
        return ToolResult(
            content=f"{verb} {_line(job)}\n{runs}".strip(), structured={**_values(job), "nextRuns": times}
        )


def _taint_of(jobs: Sequence[Job]) -> Spent:
    """Returns what a run has read that reads these jobs: whatever the runs that made them had read."""
    return Spent(taint=tuple(dict.fromkeys(name for job in jobs for name in job.taint)))


def _new_job(arguments: dict[str, Any], context: RunContext) -> NewJob:
    text = str(arguments.get("text") or "")
    if not text.strip():
        raise RequestError("text: add needs the message or instruction", param="text")
    return NewJob(
        text=text,
        schedule=_schedule(arguments),
        owner=context.principal,
        name=str(arguments.get("name") or ""),
        kind=_kind(arguments),
        delete_after_run=bool(arguments.get("deleteAfterRun")),
        inherited=_inherited(context),
        reply_to=chat_of(context.injected),
        chat=context.conversation,
    )


def _inherited(context: RunContext) -> Inherited:
    """Returns the limits of the job's runs: those of the run that makes it, only the tools that it sees, and its taint."""
    visible = tuple(tool.name for tool in context.view)
    limit = context.inherited.tools
    return Inherited(
        lineage=context.inherited.lineage,
        tools=visible if limit is None else tuple(name for name in visible if name in limit),
        taint=tuple(dict.fromkeys((*context.inherited.taint, *context.taint))),
    )


def _kind(arguments: dict[str, Any]) -> JobKind:
    return "instruction" if arguments.get("kind") == "instruction" else "message"


def _schedule(arguments: dict[str, Any]) -> Schedule:
    """Returns the schedule, also if its fields are beside it instead of in it."""
    inner = arguments.get("schedule") or {}
    fields = {name: arguments.get(name) for name in ("at", "everyMs", "every", "expr", "tz")}
    fields |= {name: value for name, value in inner.items() if value is not None}
    at, expr, tz = fields.get("at"), fields.get("expr") or fields.get("cron"), fields.get("tz")
    every = fields.get("everyMs") if fields.get("everyMs") is not None else fields.get("every")
    kinds = {"at": at, "every": every, "cron": expr}
    wanted = str(inner.get("kind") or arguments.get("kind"))
    present = [kind for kind, value in kinds.items() if value is not None]
    kind = wanted if wanted in kinds else present[0] if len(present) == 1 else None
    if kind is None or kinds[kind] is None:
        raise RequestError(
            "schedule: give {kind: 'at', at}, {kind: 'every', everyMs} or {kind: 'cron', expr, tz}", param="schedule"
        )
    if kind == "at" and isinstance(at, str):
        return At(at=_in_zone(at, tz))
    if kind == "cron" and isinstance(expr, str) and isinstance(tz, str | None):
        return Cron(expr=expr, tz=tz or None)
    if kind == "every" and not isinstance(every, bool) and str(every).isascii() and str(every).isdigit():
        return Every(every_ms=int(str(every)[:18]))
    raise RequestError(f"schedule: the field of kind {kind} has a wrong type", param="schedule")


def _in_zone(at: str, tz: Any) -> str:
    """Returns a date with an offset, if it has a zone of its own."""
    if not isinstance(tz, str) or not tz:
        return at
    moment = next_slot(At(at=at), zone=tz, after=float("-inf"), anchor=0.0)
    return at if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def _job_id(arguments: dict[str, Any]) -> str:
    return str(arguments.get("jobId") or arguments.get("id") or "")


def _line(job: Job) -> str:
    state = f"next {_local(job.next, job)}" if job.next is not None else "disabled"
    outcome = (
        f", last run {job.status}{f': {job.note[:_SHOWN]}' if job.status == 'failed' else ''}" if job.status else ""
    )
    return f"{job.id} {job.name!r} ({job.kind}): {state}{outcome}"


def _values(job: Job) -> dict[str, Any]:
    return {
        "jobId": job.id,
        "name": job.name,
        "kind": job.kind,
        "text": job.text,
        "enabled": job.enabled,
        "next": None if job.next is None else _local(job.next, job),
        "lastStatus": job.status,
    }


def _local(moment: float, job: Job) -> str:
    zone = ZoneInfo(job.zone)
    return f"{datetime.fromtimestamp(moment, zone).isoformat(sep=' ', timespec='seconds')} ({zone.key})"
