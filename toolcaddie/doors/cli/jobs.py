"""`toolcaddie jobs`: lists, shows, runs, pauses, resumes and removes the jobs of bots, and shows durable work. It needs the
database alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.jobs import desk_of
from toolcaddie.core.jobs import Job, Slot
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import hinted
from toolcaddie.doors.cli.jobs_work import work
from toolcaddie.doors.cli.options import database_option, nothing_such, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.job_sheets import job_record, outcome_text, rest_text, schedule_text
from toolcaddie.doors.texts import local_time, shortened
from toolcaddie.jobs.desk import JobDesk

T = TypeVar("T")

_NAME_WIDTH = 28
_NO_SERVER = "no server runs jobs now; the job begins when `toolcaddie serve` is started"

job_argument = click.argument("job_id", metavar="JOB")


@click.group(
    name="jobs",
    epilog="\b\nExamples:\n"
    "  toolcaddie jobs list\n"
    "  toolcaddie jobs show 0f3a5c7e9b1d\n"
    "  toolcaddie jobs pause 0f3a5c7e9b1d\n"
    "  toolcaddie jobs work",
)
def command() -> None:
    """List, run, pause and remove the jobs that bots do at set times, and show which processes do durable work."""


command.add_command(work)


@command.command("list", epilog="\b\nExamples:\n  toolcaddie jobs list\n  toolcaddie jobs list --bot reception --json")
@click.option("--bot", metavar="BOT", help="Only the jobs of this bot.")
@click.option("--tenant", metavar="TENANT", help="Only the jobs of this tenant.")
@database_option
@json_option
@click.pass_obj
def list_(common: Common, bot: str | None, tenant: str | None, database_url: str | None, as_json: bool) -> None:
    """List the jobs, the next one first."""

    async def read(desk: JobDesk) -> tuple[Sequence[Job], bool]:
        return await desk.list(bot=bot, tenant=tenant), await desk.is_served()

    jobs, is_served = _with_desk(common, database_url, read)
    if as_json:
        print_json({"jobs": [job_record(job) for job in jobs]})
        return
    if not jobs:
        such = nothing_such("jobs", bot, settings_of(common))
        note(such if bot or tenant else "there are no jobs; bots make them with the tool cron")
        return
    rows = [
        (
            job.id,
            shortened(job.name, _NAME_WIDTH),
            job.kind,
            job.owner.bot or "",
            job.owner.id,
            schedule_text(job),
            _next_text(job),
            local_time(job.last),
            outcome_text(job, is_served=is_served),
        )
        for job in jobs
    ]
    columns = ("job", "name", "kind", "bot", "owner", "schedule", "next run", "last run", "outcome")
    print_table(columns, rows, spare=("kind", "owner", "last run", "bot", "schedule"))


@command.command("show", epilog="\b\nExample:\n  toolcaddie jobs show 0f3a5c7e9b1d")
@job_argument
@database_option
@json_option
@click.pass_obj
def show(common: Common, job_id: str, database_url: str | None, as_json: bool) -> None:
    """Show a job with its text, next times and last runs."""

    async def read(desk: JobDesk) -> tuple[Job, list[float], list[Slot]]:
        job = await desk.get(job_id)
        return job, list(desk.next_times(job)), list(await desk.slots(job.id))

    job, times, slots = _with_desk(common, database_url, read)
    if as_json:
        print_json({**job_record(job), "next_times": times, "runs": [msgspec.to_builtins(slot) for slot in slots]})
        return
    echo(f"{job.name}  ({job.kind}, {job.owner.bot or 'no bot'}, made by {job.owner.id} {local_time(job.created)})")
    if job.text != job.name:
        echo(job.text)
    echo(f"schedule: {schedule_text(job)} ({job.zone})")
    if job.taint:
        echo(f"made after reading untrusted results of: {', '.join(job.taint)}")
    echo(f"next: {', '.join(local_time(time) for time in times) or _next_text(job)}")
    for slot in slots:
        first, *rest = slot.note.splitlines() or [""]
        echo(f"{local_time(slot.at)}  {slot.status}{' (asked for)' if slot.manual else ''}  {first}".rstrip())
        for line in rest:
            echo(f"  {line}")


@command.command("run", epilog="\b\nExample:\n  toolcaddie jobs run 0f3a5c7e9b1d")
@job_argument
@database_option
@json_option
@click.pass_obj
def run(common: Common, job_id: str, database_url: str | None, as_json: bool) -> None:
    """Let the server run a job now, in addition to its schedule."""

    async def ask(desk: JobDesk) -> tuple[Slot, bool]:
        return await desk.run(job_id), await desk.is_served()

    slot, is_served = _with_desk(common, database_url, ask)
    if as_json:
        print_json({"job": slot.job, "slot": slot.at, "is_served": is_served})
        return
    echo(f"job {slot.job} is asked to run")
    if not is_served:
        note(_NO_SERVER)


@command.command("pause", epilog="\b\nExample:\n  toolcaddie jobs pause 0f3a5c7e9b1d")
@job_argument
@database_option
@json_option
@click.pass_obj
def pause(common: Common, job_id: str, database_url: str | None, as_json: bool) -> None:
    """Pause a job; a run that has begun continues."""
    _switch(common, job_id, database_url, enabled=False, as_json=as_json)


@command.command("resume", epilog="\b\nExample:\n  toolcaddie jobs resume 0f3a5c7e9b1d")
@job_argument
@database_option
@json_option
@click.pass_obj
def resume(common: Common, job_id: str, database_url: str | None, as_json: bool) -> None:
    """Resume a paused job; it does not make up for the times that have passed."""
    _switch(common, job_id, database_url, enabled=True, as_json=as_json)


@command.command("remove", epilog="\b\nExample:\n  toolcaddie jobs remove 0f3a5c7e9b1d")
@job_argument
@database_option
@json_option
@click.pass_obj
def remove(common: Common, job_id: str, database_url: str | None, as_json: bool) -> None:
    """Remove a job."""
    job = _with_desk(common, database_url, lambda desk: desk.remove(job_id))
    if as_json:
        print_json(job_record(job))
    else:
        echo(f"removed {job.id} ({job.name})")


def _switch(common: Common, job_id: str, database_url: str | None, *, enabled: bool, as_json: bool) -> None:
    job = _with_desk(common, database_url, lambda desk: desk.switch(job_id, enabled=enabled))
    if as_json:
        print_json(job_record(job))
    elif enabled:
        echo(f"resumed {job.id} ({job.name}); next run {local_time(job.next)}")
    else:
        echo(f"paused {job.id} ({job.name})")


def _with_desk(common: Common, database_url: str | None, query: Callable[[JobDesk], Awaitable[T]]) -> T:
    """Opens the database, and returns the result of a query of its jobs."""
    settings = settings_of(common, database_url=database_url)

    async def answer() -> T:
        async with existing_or_empty(settings) as database:
            return await query(desk_of(settings, database.jobs, database.store))

    with hinted("unknown_job", "`toolcaddie jobs list` shows the ids"):
        return asyncio.run(answer())


def _next_text(job: Job) -> str:
    return rest_text(job) or local_time(job.next)
