"""`toolcaddie eval replay`: selects the tools of a recorded run again, under another configuration, and shows the differences."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.storage import EventRecord, RunSummary
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.eval.parts import configurations, evaluated_catalog, finders, signals_choice
from toolcaddie.doors.cli.options import catalog_option, database_option, preset_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.trail import LAST, events_of
from toolcaddie.doors.texts import shortened
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.recorded import RecordedRun, recorded
from toolcaddie.evaluation.replay import Replay, check_replayable, replayed

_MESSAGE_SHOWN = 100
_NAMES_SHOWN = 12


@click.command(
    name="replay",
    epilog="\b\nExamples:\n"
    "  toolcaddie eval replay last --catalog gym --preset keyword\n"
    "  toolcaddie eval replay run_0123 --catalog gym --signals lexical --json",
)
@click.argument("run_id")
@catalog_option
@preset_option
@click.option("--signals", type=signals_choice, help="Group of rankers that selects the tools.")
@database_option
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    run_id: str,
    catalogs: tuple[str, ...],
    preset: str | None,
    signals: str | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Select the tools of a recorded run again and show the differences.

    RUN_ID is the id of a run, or 'last'.
    """
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json replay`.
    as_json = as_json or bool(ctx.parent and ctx.parent.params.get("as_json"))
    parent_catalogs = ctx.parent.params.get("catalogs", ()) if ctx.parent else ()
    settings = settings_of(
        ctx.find_object(Common) or Common(),
        catalogs=catalogs or parent_catalogs,
        preset=preset,
        database_url=database_url,
    )
    record = asyncio.run(_replay_of(settings, run_id, signals))
    print_json(_replay_json(record)) if as_json else _print(record)


async def _replay_of(settings: Settings, run_id: str, signals: str | None) -> Replay:
    """Selects again for a run. `signals`: the group of rankers; None: those of the settings."""
    run = _run(await events_of(settings, run_id), run_id)
    check_replayable(run)
    catalog = evaluated_catalog(settings)
    compared_configurations = configurations(settings, [signals] if signals else [], [])
    request = LabelledRequest(messages=run.messages, gold=frozenset(), group="")
    async with finders(compared_configurations, catalog, [request]) as (finder,):
        return replayed(run, finder.select(run.messages), catalog)


def _run(events: Sequence[EventRecord], run_id: str) -> RecordedRun:
    """Returns a run from its events. `run_id`: the id as the person wrote it, or `last`. Raises `RequestError` if the run cannot
    be replayed."""
    first = events[0]
    summary = RunSummary(run_id=first.run_id, started=first.at, message="", status="", principal="", preset="")
    try:
        run = recorded(summary, events)
    except (msgspec.ValidationError, ValueError) as error:
        raise RequestError(
            f"run {first.run_id} cannot be replayed: its events do not have the form that Toolcaddie records ({error})"
        ) from error
    if run is None:
        run_word = run_id if run_id == LAST else first.run_id
        raise RequestError(
            f"run {first.run_id} selected no tools, so there is nothing to replay; see `toolcaddie trail {run_word}`"
        )
    return run


def _replay_json(result: Replay) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(result)
    record["verdict"] = result.verdict
    return record


def _print(result: Replay) -> None:
    """Prints the reasons why the comparison is not exact, the called tools, the differences, and the verdict."""
    echo(f"{result.run_id}: {shortened(result.message, _MESSAGE_SHOWN)}")
    for remark in result.notes:
        note(remark)
    echo()
    if result.called:
        rows = [(call.name, _selected_text(call.before), _selected_text(call.after)) for call in result.called]
        print_table(("called", "then", "now"), rows)
        echo()
    echo(f"{result.kept} tools in both; tokens {result.tokens_before:,} then, {result.tokens_after:,} now")
    for sign, names in (("+", result.added), ("-", result.removed)):
        if names:
            more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
            echo(f"{sign}{len(names)}: {', '.join(names[:_NAMES_SHOWN])}{more}")
    if result.no_match_after and not result.no_match_before:
        echo("now nothing in the catalog fits this message")
    echo(result.verdict)


def _selected_text(selected: bool) -> str:
    return "selected" if selected else "missed"
