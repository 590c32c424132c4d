"""`toolcaddie runs`: lists recorded runs with their state, or shows the outcome of each call of one run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from toolcaddie.app.build import opened
from toolcaddie.app.settings import Settings
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, local_time, note, print_json, print_table, shortened
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.trail import events_of
from toolcaddie.storage.runs import StoredRuns

CallState = Literal["under way", "done", "failed", "unknown"]

_CALL_KINDS = ("call_intended", "call_finished", "call_unknown")
"""Kinds of the events from which the state of a call follows."""
_MESSAGE_SHOWN = 60
_DETAIL_SHOWN = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """A call and its outcome. A call whose outcome is not recorded is `under way`, or `unknown` once it is recorded that the
    outcome will never be known, because the process was killed or the run was cancelled."""

    id: str
    name: str
    arguments: str
    state: CallState
    detail: str = ""
    """The result of the call, or the reason why it is unknown."""


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
    done: int
    failed: int
    unknown: int
    message: str


@click.command(
    name="runs",
    epilog="\b\nExamples:\n  toolcaddie runs\n  toolcaddie runs last\n  toolcaddie runs run_0123 --json",
)
@click.argument("run_id", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs to list."
)
@database_option
@json_option
@click.pass_obj
def command(common: Common, run_id: str | None, limit: int, database_url: str | None, as_json: bool) -> None:
    """List runs with their state, or show the outcome of each call of one run.

    RUN_ID is the id of a run, or 'last'. A run is running (the list names its process), pending (it can be resumed), completed,
    client_calls (its client runs the calls) or failed. A call is unknown if its process was killed or its run was cancelled
    before the outcome was recorded: check if it took effect before you repeat it.
    """
    settings = settings_of(common, database_url=database_url)
    if run_id is None:
        rows = asyncio.run(_rows(settings, limit))
        print_json({"runs": rows}) if as_json else _print_rows(rows)
        return
    events = asyncio.run(events_of(settings, run_id))
    calls = calls_of(events)
    if as_json:
        print_json({"run_id": events[0].run_id, "calls": calls})
    else:
        _print_calls(calls, events[0].run_id)


def calls_of(events: Iterable[EventRecord]) -> Sequence[CallSummary]:
    """Returns the calls of one run in the order of their start. A call with a recorded outcome keeps it, even if a later event
    says that its outcome is unknown."""
    calls: dict[str, CallSummary] = {}
    for event in events:
        if event.kind not in _CALL_KINDS:
            continue
        data, before = event.data, calls.get(event.data["id"])
        if event.kind == "call_unknown" and before is not None and before.state in ("done", "failed"):
            continue
        calls[data["id"]] = CallSummary(
            id=data["id"], name=data["name"], arguments=data["arguments"], state=_state(event), detail=_detail(data)
        )
    return list(calls.values())


def _state(event: EventRecord) -> CallState:
    """Returns the state of a call after one of its events, which is of a kind in `_CALL_KINDS`."""
    match event.kind:
        case "call_unknown":
            return "unknown"
        case "call_finished":
            return "failed" if event.data.get("error") else "done"
        case _:
            return "under way"


def _detail(data: Mapping[str, Any]) -> str:
    return str(data.get("reason") or data.get("content") or "")


async def _rows(settings: Settings, limit: int) -> Sequence[RunRow]:
    """Returns the newest runs, the newest first."""
    async with opened(settings) as database:
        runs = await database.events.runs(RunQuery(limit=limit))
        ids = [run.run_id for run in runs]
        records = await database.events.records(ids, _CALL_KINDS)
        resumable = await StoredRuns(database.store).resumable(ids)
        labels = await database.leases.labels()
    by_run: dict[str, list[EventRecord]] = {}
    for record in records:
        by_run.setdefault(record.run_id, []).append(record)
    return [_row(run, by_run.get(run.run_id, ()), run.run_id in resumable, labels) for run in runs]


def _row(run: RunSummary, records: Iterable[EventRecord], resumable: bool, labels: Mapping[int, str]) -> RunRow:
    """Returns the row of a run. `records`: the events of its calls. `resumable`: True if its state is stored. `labels`: names of
    the live processes by number."""
    states = Counter(call.state for call in calls_of(records))
    return RunRow(
        run_id=run.run_id,
        started=run.started,
        status=run.status,
        resumable=resumable and run.status != "running",
        owner=None if run.owner is None else labels.get(run.owner, "a process that is gone"),
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
    """Returns the status of a run, with the process that executes it, or with a remark if it can be resumed."""
    if row.owner is not None:
        return f"{row.status} ({row.owner})"
    return f"{row.status} (can be resumed)" if row.resumable else row.status


def _print_calls(calls: Sequence[CallSummary], run_id: str) -> None:
    if not calls:
        note(f"This run called no tool. `toolcaddie trail {run_id}` shows what it did.")
        return
    rows = [
        (call.id, call.name, call.state, shortened(f"{call.arguments} {call.detail}", _DETAIL_SHOWN)) for call in calls
    ]
    print_table(("call", "tool", "state", "arguments and outcome"), rows, spare=("call",))
