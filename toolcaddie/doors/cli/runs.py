"""`toolcaddie runs`: lists recorded runs with their state, shows the outcome of each call of one run, and settles calls whose
outcome is unknown."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RunNotFoundError
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.endings import note_ending
from toolcaddie.doors.cli.lost import settle_lost_runs
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.trail import events_in
from toolcaddie.doors.run_calls import CALL_KINDS, CallSummary, calls_of, ending_in
from toolcaddie.doors.texts import counted, local_time, shortened
from toolcaddie.runtime.settling import Finding, Settlement, Settling, unknown_calls
from toolcaddie.storage.database import Database
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.util.suggest import close_names
from toolcaddie.util.user import user_name

_MESSAGE_SHOWN = 60
_DETAIL_SHOWN = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCall:
    """A call whose outcome is unknown."""

    run_id: str
    id: str
    name: str
    arguments: str
    began: float | None
    """The moment at which it began, in seconds since the epoch. None: its process was killed before that was on disk."""
    at: float
    """The moment at which it was recorded that its outcome is unknown, in seconds since the epoch."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One row of the list of runs. `done`, `failed` and `unknown` are the numbers of calls in these states."""

    run_id: str
    started: float
    status: str
    resumable: bool
    """True if `Runtime.resume` can continue the run."""
    owner: str | None
    """The process that executes the run. None: the run is not in progress."""
    refused: bool
    """True if a tool was called directly, without a model, and did not run: its name or its arguments were wrong, or it was not
    allowed."""
    done: int
    failed: int
    unknown: int
    message: str


class _Runs(click.Group):
    """A group whose command `show` needs no name: `toolcaddie runs last` is `toolcaddie runs show last`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["show", *args])


@click.group(
    name="runs",
    cls=_Runs,
    epilog="\b\nExamples:\n"
    "  toolcaddie runs\n"
    "  toolcaddie runs last\n"
    "  toolcaddie runs run_0123 --json\n"
    "  toolcaddie runs unknown\n"
    '  toolcaddie runs settle run_0123 call_1 --done --reason "on the statement"',
)
def command() -> None:
    """List runs with their state, or show the outcome of each call of one run.

    `show` needs no name: `toolcaddie runs` lists runs, `toolcaddie runs RUN_ID` shows one.
    """


@command.command("show", epilog="\b\nExamples:\n  toolcaddie runs show\n  toolcaddie runs show last")
@click.argument("run_id", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs to list."
)
@database_option
@json_option
@click.pass_obj
def show(common: Common, run_id: str | None, limit: int, database_url: str | None, as_json: bool) -> None:
    """List runs with their state, or show the outcome of each call of one run.

    RUN_ID is the id of a run, or 'last'. A run is running (the list names its process), pending (it can be resumed), completed,
    client_calls (its client runs the calls) or failed. A call is unknown if its process was killed or its run was cancelled
    before the outcome was recorded: check if it took effect, and settle it (`toolcaddie runs settle`).
    """
    settings = settings_of(common, database_url=database_url)
    if run_id is None:
        rows = asyncio.run(_rows(settings, limit))
        print_json({"runs": rows}) if as_json else _print_rows(rows)
        return
    events = asyncio.run(_events(settings, run_id))
    calls = calls_of(events)
    if as_json:
        print_json({"run_id": events[0].run_id, "ending": ending_in(events), "calls": calls})
    else:
        _print_calls(calls, events[0].run_id)
        note_ending(ending_in(events))


@command.command("unknown", epilog="\b\nExamples:\n  toolcaddie runs unknown\n  toolcaddie runs unknown --json")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1_000, show_default=True, help="Number of runs, the newest first."
)
@database_option
@json_option
@click.pass_obj
def unknown(common: Common, limit: int, database_url: str | None, as_json: bool) -> None:
    """List the calls whose outcome is unknown: their process was killed, or their run was cancelled, in the middle. The number of
    calls that are under way stands below the list.

    Nothing repeats such a call. Find out whether it took effect, and settle it.
    """
    calls, under_way = asyncio.run(_unknown(settings_of(common, database_url=database_url), limit))
    if as_json:
        print_json({"calls": calls, "under_way": under_way})
    elif not calls:
        note("no call has an unknown outcome")
    else:
        rows = [
            (call.run_id, call.id, _began(call), call.name, shortened(call.arguments, _DETAIL_SHOWN)) for call in calls
        ]
        print_table(("run", "call", "began", "tool", "arguments"), rows, spare=("began",))
    if under_way and not as_json:
        note(
            f"{counted(under_way, 'call')} under way. If the process of one was killed, this command finds that out once the "
            "lease of that process is over (`[storage] lease`), and then the call is unknown."
        )


@command.command(
    "settle",
    epilog="\b\nExamples:\n"
    '  toolcaddie runs settle run_0123 call_1 --done --result "booking 4711"\n'
    '  toolcaddie runs settle run_0123 call_1 --not-done --reason "not on the list"',
)
@click.argument("run_id")
@click.argument("call_id")
@click.option("--done", is_flag=True, help="The call took effect.")
@click.option("--not-done", is_flag=True, help="The call did not take effect.")
@click.option("--result", "text", default="", help="What the model reads about the call besides.")
@click.option("--reason", default="", help="How you know; it is recorded.")
@database_option
@json_option
@click.pass_obj
def settle(
    common: Common,
    run_id: str,
    call_id: str,
    done: bool,
    not_done: bool,
    text: str,
    reason: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Say what became of the call CALL_ID of the run RUN_ID, whose outcome is unknown.

    It is recorded with your name. If the run can be resumed, its model reads it.
    """
    if done == not_done:
        both = ", not both" if done else ""
        raise click.UsageError(f"say whether the call took effect: --done or --not-done{both}")
    finding = Finding(took_effect=done, text=text, reason=reason)
    settlement = asyncio.run(_settled(settings_of(common, database_url=database_url), run_id, call_id, finding))
    if as_json:
        print_json(settlement)
        return
    echo(f"{settlement.tool} {'took effect' if done else 'did not take effect'} ({run_id}, {call_id})")
    if settlement.resumable:
        note(f"`toolcaddie resume {run_id}` continues the run with this")
    else:
        note("the run has ended; nothing continues it")


def _began(call: UnknownCall) -> str:
    return "" if call.began is None else local_time(call.began)


@asynccontextmanager
async def _settled_database(settings: Settings) -> AsyncIterator[Database]:
    """Yields the database as `existing_or_empty` does, after the runs that dead processes left are settled."""
    async with existing_or_empty(settings) as database:
        await settle_lost_runs(database)
        yield database


async def _events(settings: Settings, run_id: str) -> Sequence[EventRecord]:
    async with _settled_database(settings) as database:
        try:
            return await events_in(database.events, run_id)
        except RunNotFoundError as error:
            if close := close_names(run_id, command.commands):  # `runs` takes any other word as the id of a run
                error.add_note(f"did you mean `toolcaddie runs {close[0]}`?")
            raise


async def _unknown(settings: Settings, limit: int) -> tuple[Sequence[UnknownCall], int]:
    """Returns the unknown calls of the newest runs, and the number of their calls that are under way."""
    async with _settled_database(settings) as database:
        runs = await database.events.runs(RunQuery(limit=limit))
        records = await database.events.records([run.run_id for run in runs], CALL_KINDS)
    announced = {(record.run_id, record.data["id"]): record.at for record in records if record.kind == "call_intended"}
    ended = [record for record in records if record.kind != "call_intended"]
    under_way = announced.keys() - {(record.run_id, record.data["id"]) for record in ended}
    unknown = [
        UnknownCall(
            run_id=record.run_id,
            id=record.data["id"],
            name=record.data["name"],
            arguments=record.data["arguments"],
            began=announced.get((record.run_id, record.data["id"])),
            at=record.at,
            reason=record.data["reason"],
        )
        for record in unknown_calls(ended)
    ]
    return unknown, len(under_way)


async def _settled(settings: Settings, run_id: str, call_id: str, finding: Finding) -> Settlement:
    """Settles a call in the name of the operating system's user."""
    async with _settled_database(settings) as database:
        settling = Settling(database.events, StoredRuns(database.store), Trail(database.events).emit)
        return await settling.settle(run_id, call_id, finding, by=Principal(id=user_name()))


async def _rows(settings: Settings, limit: int) -> Sequence[RunRow]:
    """Returns the newest runs, the newest first."""
    async with _settled_database(settings) as database:
        runs = await database.events.runs(RunQuery(limit=limit))
        ids = [run.run_id for run in runs]
        records = await database.events.records(ids, CALL_KINDS)
        resumable = await StoredRuns(database.store).resumable(ids)
        labels = await database.leases.labels()
    by_run: dict[str, list[EventRecord]] = {}
    for record in records:
        by_run.setdefault(record.run_id, []).append(record)
    return [_row(run, by_run.get(run.run_id, ()), run.run_id in resumable, labels) for run in runs]


def _row(run: RunSummary, records: Sequence[EventRecord], resumable: bool, labels: Mapping[int, str]) -> RunRow:
    """Returns the row of a run. `records`: the events of its calls. `resumable`: True if its state is stored. `labels`: names of
    the live processes by number."""
    states = Counter(call.state for call in calls_of(records))
    return RunRow(
        run_id=run.run_id,
        started=run.started,
        status=run.status,
        resumable=resumable and run.status != "running",
        owner=None if run.owner is None else labels.get(run.owner, "a process that is gone"),
        refused=run.status == "completed" and not run.rounds and not run.calls,
        done=states["done"],
        failed=states["failed"],
        unknown=states["unknown"],
        message=run.message,
    )


def _print_rows(rows: Sequence[RunRow]) -> None:
    """Prints the list of runs."""
    if not rows:
        note('Nothing is recorded yet. Try: toolcaddie run "freeze John\'s membership" --catalog gym')
        return
    cells = [
        (
            row.run_id,
            local_time(row.started),
            _standing(row),
            row.done,
            row.failed,
            row.unknown,
            shortened(row.message, _MESSAGE_SHOWN),
        )
        for row in rows
    ]
    print_table(
        ("run", "started", "state", "done", "failed", "unknown", "message"),
        cells,
        right=("done", "failed", "unknown"),
        spare=("started", "done", "failed"),
    )


def _standing(row: RunRow) -> str:
    """Returns the status of a run, with the process that executes it, or with a remark if it can be resumed or called nothing."""
    if row.owner is not None:
        return f"{row.status} ({row.owner})"
    if row.refused:
        return f"{row.status} (the call was refused)"
    return f"{row.status} (can be resumed)" if row.resumable else row.status


def _print_calls(calls: Sequence[CallSummary], run_id: str) -> None:
    if not calls:
        note(f"This run called no tool. `toolcaddie trail {run_id}` shows what it did.")
        return
    rows = [
        (call.id, call.name, call.state, shortened(f"{call.arguments} {_outcome(call)}", _DETAIL_SHOWN))
        for call in calls
    ]
    print_table(("call", "tool", "state", "arguments and outcome"), rows, spare=("call",))


def _outcome(call: CallSummary) -> str:
    """Returns the effects of a call, if they are known, and its outcome."""
    return f"({', '.join(call.effects)}) {call.detail}" if call.effects else call.detail
