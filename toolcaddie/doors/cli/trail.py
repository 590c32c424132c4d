"""`toolcaddie trail`: lists the recorded runs, or shows the events of one run.

The trail is the record of all runs, with a row for each event. This file describes each row in one sentence. Other commands read
the trail with `events_of`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RunNotFoundError
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import counted, json_option, local_time, note, print_json, print_table, shortened
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.steps import attempt_text
from toolcaddie.ports import EventLog

LAST = "last"
"""The word that people write instead of an id for the newest run."""

_MESSAGE_SHOWN = 60
_NAMES_SHOWN = 8
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
        (event.seq, local_time(event.at)[11:], event.kind, shortened(_sentence(event), _SENTENCE_SHOWN))
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


# --- one sentence per event -----------------------------------------------------------------------------------------------

Data = Mapping[str, Any]
"""The recorded data of one event, whose keys depend on the kind of the event."""


def _start_sentence(data: Data) -> str:
    return f"{data['principal']['id']}, preset {data['preset']}, {counted(data['catalog_size'], 'tool')}: {data['message']}"


def _selection_sentence(data: Data) -> str:
    counts = data["counts"]
    names = _names([tool["name"] for tool in data["tools"]])
    return f"{counts['selected']} of {counts['catalog']}" + (f": {names}" if names else "")


def _delivery_sentence(data: Data) -> str:
    tokens = data["tokens"]
    meta = f", with {', '.join(data['meta'])}" if data["meta"] else ""
    behind = f"; {_names(data['added'])} by {data['added_by']}" if data.get("added") else ""
    return f"{data['strategy']}: {counted(len(data['tools']), 'tool')}{meta}{behind}; {tokens['sent']} of {tokens['all']} tokens"


def _request_sentence(data: Data) -> str:
    return f"round {data['round']}: {data['model'] or data['provider']} with {counted(data['tools'], 'tool')}"


def _answer_sentence(data: Data) -> str:
    calls = ", ".join(call["name"] for call in data["calls"])
    text = f"calls {calls}" if calls else str(data["text"])
    attempts = _attempts_text(data.get("attempts", ()))
    source = attempts or (f"{data['provider']}:{data['model']} answered" if data.get("provider") else "")
    return f"{source}: {text}" if source else text


def _attempts_text(attempts: Sequence[Data]) -> str:
    return "; ".join(
        attempt_text(attempt["provider"], attempt["model"], attempt["how"], attempt["outcome"], attempt["detail"])
        for attempt in attempts
    )


def _meta_sentence(data: Data) -> str:
    added = f"; added {_names(data['added'])}" if data["added"] else ""
    return f"{data['name']} {data['arguments']}{added}"


def _decision_sentence(data: Data) -> str:
    reason = f": {data['reason']}" if data["reason"] else ""
    # Rows of earlier versions have no version of the policy.
    version = f" of policy {data['policy_version']}" if data.get("policy_version") else ""
    effects = f" ({_names(data['effects'])})" if data.get("effects") else ""
    return f"{data['verdict']} {data['name']}{effects} by rule {data['rule']}{version}{reason}"


def _approval_sentence(data: Data) -> str:
    by = f" by {data['by']}" if data["by"] else ""
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"{data['name']} {data['status']}{by} at {local_time(data['closed'])}{reason}"


def _applied_sentence(data: Data) -> str:
    by = f", answered by {data['by']}" if data["by"] else ", answered by the application"
    channel = f" ({data['channel']})" if data["channel"] else ""
    return f"{data['name']} {data['status']} by {data['approval']} of {data['asked_in']}{by}{channel}"


def _intent_sentence(data: Data) -> str:
    return f"{data['name']} {data['arguments']}"


def _call_sentence(data: Data) -> str:
    failed = f"{data['error']}: " if data.get("error") else ""
    origin = ", kept from an equal call" if data.get("cached") else ""
    return f"{data['name']} in {data['seconds'] * 1000:.0f} ms{origin}: {failed}{data['content']}"


def _limit_sentence(data: Data) -> str:
    return str(data["detail"] or data["limit"])


def _pause_sentence(data: Data) -> str:
    waits = f"waits for {', '.join(item['name'] for item in data['waiting'])}" if data["waiting"] else "can be resumed"
    return f"{data['reason']}: it {waits}" if data.get("reason") else waits


def _unknown_sentence(data: Data) -> str:
    return f"{data['name']} {data['arguments']}: {data['reason']}; whether it took effect is not known"


def _settled_sentence(data: Data) -> str:
    effect = "took effect" if data["took_effect"] else "did not take effect"
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"{data['name']} {effect}, says {data['by']}{reason}"


def _resume_sentence(data: Data) -> str:
    answered_names = data["answered"]
    return f"by {data['principal']}" + (f", with an answer for {_names(answered_names)}" if answered_names else "")


def _claims_sentence(data: Data) -> str:
    claims = "; ".join(f"{claim['action']}: {claim['text']}" for claim in data["claims"])
    return f"no successful call supports: {claims}"


def _end_sentence(data: Data) -> str:
    ending = f", {data['ending']}" if data.get("ending") else ""
    return f"{data['status']}{ending}: {data['text']}"


def _failure_sentence(data: Data) -> str:
    attempts = data.get("attempts", ())
    return f"{data['kind']}: {_attempts_text(attempts) if len(attempts) > 1 else data['error']}"


# For each kind of event, the function that describes such an event in one sentence.
_SENTENCES: Mapping[str, Callable[[Data], str]] = {
    "run_started": _start_sentence,
    "tools_selected": _selection_sentence,
    "tools_delivered": _delivery_sentence,
    "model_asked": _request_sentence,
    "model_answered": _answer_sentence,
    "meta_called": _meta_sentence,
    "call_decided": _decision_sentence,
    "approval_closed": _approval_sentence,
    "approval_applied": _applied_sentence,
    "call_intended": _intent_sentence,
    "call_finished": _call_sentence,
    "call_unknown": _unknown_sentence,
    "call_settled": _settled_sentence,
    "limit_reached": _limit_sentence,
    "run_paused": _pause_sentence,
    "run_resumed": _resume_sentence,
    "claims_unsupported": _claims_sentence,
    "run_finished": _end_sentence,
    "run_failed": _failure_sentence,
}


def _sentence(event: EventRecord) -> str:
    """Returns an event as one sentence. Empty: the event is of a kind that this version does not know."""
    make = _SENTENCES.get(event.kind)
    return "" if make is None else make(event.data)


def _names(names: Sequence[str]) -> str:
    """Returns the first names, and the number of the others."""
    hidden_count = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {hidden_count} more" if hidden_count > 0 else "")
