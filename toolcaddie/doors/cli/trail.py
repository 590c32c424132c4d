"""`toolcaddie trail`: lists the recorded runs, or shows the events of one run.

The trail is the record of all runs, with a row for each event. Other commands read the trail with `events_of`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RunNotFoundError
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.event_sentences import sentence_of
from toolcaddie.doors.texts import local_time, shortened
from toolcaddie.ports import EventLog

LAST = "last"
"""The word that people write instead of an id for the newest run."""

_MESSAGE_SHOWN = 60
_SENTENCE_SHOWN = 240


@click.command(
    name="trail",
    epilog="\b\nExamples:\n  toolcaddie trail\n  toolcaddie trail last\n  toolcaddie trail run_0123 --json",
)
@click.argument("run_id", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs to list."
)
@database_option
@json_option
@click.pass_obj
def command(common: Common, run_id: str | None, limit: int, database_url: str | None, as_json: bool) -> None:
    """List recorded runs, or show the events of one run.

    RUN_ID is the id of a run, or 'last'.
    """
    settings = settings_of(common, database_url=database_url)
    if run_id is None:
        runs = asyncio.run(_runs(settings, limit))
        print_json({"runs": runs}) if as_json else _print_runs(runs)
        return
    events = asyncio.run(events_of(settings, run_id))
    if as_json:
        print_json({"run_id": events[0].run_id, "events": events})
    else:
        _print_events(events)


async def _runs(settings: Settings, limit: int) -> Sequence[RunSummary]:
    async with existing_or_empty(settings) as database:
        return await database.events.runs(RunQuery(limit=limit))


async def events_of(settings: Settings, run_id: str) -> Sequence[EventRecord]:
    """Returns the recorded events of a run, the oldest first. `run_id` may be `last`. Raises `RunNotFoundError` if there are
    none."""
    async with existing_or_empty(settings) as database:
        return await events_in(database.events, run_id)


async def events_in(log: EventLog, run_id: str) -> Sequence[EventRecord]:
    """Returns the events of a run in the log, as `events_of` does."""
    run = await _resolved(log, run_id)
    events = await log.events(run)
    if not events and run == LAST:
        raise RunNotFoundError("no run is recorded yet; `toolcaddie run MESSAGE` makes one")
    if not events:
        raise RunNotFoundError(
            f"nothing is recorded of run {run_id!r}; `toolcaddie trail` lists the recorded runs, and the header "
            "`x-toolcaddie-run` of an answer of the gateway names its run"
        )
    return events


async def _resolved(log: EventLog, run_id: str) -> str:
    """Returns the id of the run: for `last` that of the newest run, or `last` itself if no run is recorded."""
    if run_id != LAST:
        return run_id
    newest = await log.runs(RunQuery(limit=1))
    return newest[0].run_id if newest else run_id


def _print_runs(runs: Sequence[RunSummary]) -> None:
    if not runs:
        note('Nothing is recorded yet. Try: toolcaddie run "freeze John\'s membership" --catalog gym')
        return
    rows = [
        (
            run.run_id,
            local_time(run.started),
            run.status,
            run.rounds,
            run.calls,
            "" if run.seconds is None else f"{run.seconds:.2f}",
            shortened(run.message, _MESSAGE_SHOWN),
        )
        for run in runs
    ]
    print_table(
        ("run", "started", "status", "rounds", "calls", "seconds", "message"),
        rows,
        right=("rounds", "calls", "seconds"),
        spare=("seconds", "rounds", "started", "calls"),
    )


def _print_events(events: Sequence[EventRecord]) -> None:
    rows = [
        (event.seq, local_time(event.at)[11:], event.kind, shortened(sentence_of(event), _SENTENCE_SHOWN))
        for event in _with_tool_names(events)
    ]
    print_table(("#", "time", "event", "what"), rows, right=("#",), spare=("time",))


def _with_tool_names(events: Sequence[EventRecord]) -> Iterable[EventRecord]:
    """Returns the events; calls that wait have the names of their tools, where they were recorded as calls of `execute_tool`."""
    names: dict[str, str] = {}
    for event in events:
        if event.kind == "call_decided":
            names[event.data["id"]] = event.data["name"]
        if event.kind != "run_paused":
            yield event
            continue
        waiting = [{**item, "name": names.get(item["id"], item["name"])} for item in event.data["waiting"]]
        yield msgspec.structs.replace(event, data={**event.data, "waiting": waiting})
