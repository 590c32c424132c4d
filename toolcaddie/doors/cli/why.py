"""`toolcaddie why`: explains why a tool was selected or omitted, for a message or in a recorded run of the trail. With
`--delivery` it explains how the tools are sent to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from toolcaddie.app.runtimes import catalog_of, offline
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.doors.cli import delivery as delivery_report
from toolcaddie.doors.cli.claims import note_claims
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.endings import note_ending
from toolcaddie.doors.cli.history import history_option, read_history
from toolcaddie.doors.cli.options import (
    Match,
    bot_option,
    box_option,
    catalog_option,
    database_option,
    max_tools_option,
    model_option,
    preset_option,
    settings_of,
)
from toolcaddie.doors.cli.output import json_option, note_degraded, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.cli.select import match_option, note_skipped_classifier
from toolcaddie.doors.cli.tools import name_advice
from toolcaddie.doors.cli.trail import events_of
from toolcaddie.doors.run_calls import ending_in
from toolcaddie.doors.run_tools import (
    CALLED,
    NO_SELECTION,
    NOT_LISTED,
    called_names,
    claims_in,
    effects_of,
    omission_counts,
    tool_of_run,
)
from toolcaddie.selection.explain import Explanation


@click.command(
    name="why",
    epilog="\b\nExamples:\n"
    '  toolcaddie why freeze_membership "freeze John\'s membership" --catalog gym\n'
    "  toolcaddie why --run last\n"
    "  toolcaddie why create_diet --run run_0123 --json\n"
    '  toolcaddie why --delivery "who came today" --model openai:gpt-5-mini',
)
@click.argument("tool", required=False)
@click.argument("message", required=False)
@click.option(
    "--run", "run_id", metavar="RUN_ID", help="Explain a recorded run instead of a message; 'last' is the newest."
)
@click.option("--delivery", is_flag=True, help="Explain how the tools are sent: the compared ways and their costs.")
@click.option(
    "--once", is_flag=True, help="With --delivery: for a single request, as `run` sends it, not for a conversation."
)
@model_option
@catalog_option
@box_option
@preset_option
@bot_option
@match_option
@history_option
@max_tools_option
@database_option
@json_option
@click.pass_obj
def command(
    common: Common,
    tool: str | None,
    message: str | None,
    run_id: str | None,
    delivery: bool,
    once: bool,
    model: str | None,
    catalogs: tuple[str, ...],
    box: tuple[str, ...],
    preset: str | None,
    bot: str | None,
    match: Match | None,
    history: Path | None,
    max_tools: int | None,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Explain why TOOL is selected or left out, for MESSAGE or in a recorded run.

    With --delivery, give MESSAGE without a TOOL: it explains how the tools are sent.
    """
    if once and (not delivery or run_id is not None):
        raise click.UsageError("--once goes with --delivery and a message; give both, or omit --once")
    if run_id is not None:
        if message is not None or (delivery and tool is not None):
            raise click.UsageError("give a message or --run, not both")
        settings = settings_of(common, catalogs=catalogs, box=box, database_url=database_url)
        if delivery:
            delivery_report.print_for_run(settings, run_id, as_json=as_json)
        else:
            _of_run(settings, run_id, tool, as_json=as_json)
        return
    settings = settings_of(
        common, catalogs=catalogs, box=box, preset=preset, match=match, max_tools=max_tools, model=model, bot=bot
    )
    if delivery:
        if tool is None or message is not None:
            raise click.UsageError("--delivery takes a message alone, or --run RUN_ID; omit TOOL")
        messages = (*read_history(history), Message(role="user", content=tool))
        delivery_report.print_for_message(settings, messages, once=once, as_json=as_json)
        return
    if tool is None or message is None:
        raise click.UsageError("give a tool and a message, or --run RUN_ID")
    explanation = _explain(settings, tool, (*read_history(history), Message(role="user", content=message)))
    print_json(explanation) if as_json else print_explanation(explanation)


def _explain(settings: Settings, tool: str, messages: Sequence[Message]) -> Explanation:
    """Returns the explanation of a tool for messages, the last of which is to be answered. Raises `RequestError` for an unknown
    tool."""
    runtime = offline(settings)
    explanation: Explanation = runtime.explain(tool, RunRequest(messages=messages))
    note_degraded(runtime)
    note_skipped_classifier(settings)
    if explanation.stage == "unknown":
        names = [other.name for other in runtime.source.snapshot()]
        raise RequestError(f"the catalog has no tool {tool!r}; {name_advice(tool, names)}", param="tool")
    return explanation


def print_explanation(explanation: Explanation) -> None:
    """Prints the explanation of a tool: `in` (selected) or `out`, its place among the candidates, the reasons, and the score by
    each ranker."""
    place = f", place {explanation.rank} of {explanation.candidates} candidates" if explanation.rank else ""
    verdict = "in" if explanation.chosen else "out"
    echo(f"{explanation.tool} is {verdict}: {explanation.stage}, score {explanation.score:.3f}{place}")
    if explanation.detail:
        echo(f"  {explanation.detail}")
    for reason in explanation.reasons:
        echo(f"  {reason}")
    for ranker, signal in explanation.signals.items():
        echo(f"  {ranker}: {signal:.3f}")


# --- of a recorded run ----------------------------------------------------------------------------------------------------


def _of_run(settings: Settings, run_id: str, tool: str | None, *, as_json: bool) -> None:
    """Prints the outcome of a tool in a recorded run, or without a tool the whole selection of the run."""
    events = asyncio.run(events_of(settings, run_id))
    selection = next((event.data for event in events if event.kind == "tools_selected"), None)
    if selection is None and tool in called_names(events):  # a call without a model, such as one by MCP
        selection = NO_SELECTION
    if selection is None:
        raise RequestError(f"run {events[0].run_id} selected no tools; `toolcaddie trail {run_id}` shows what it did")
    if tool is not None:
        record = {
            "run_id": events[0].run_id,
            "tool": tool,
            **tool_of_run(tool, selection, events),
            "effects": effects_of(tool, events),
        }
        if record["stage"] == NOT_LISTED:
            _refuse_unknown(tool, settings, selection)
        print_json(record) if as_json else _print_tool_of_run(record)
    elif as_json:
        print_json(
            {
                "run_id": events[0].run_id,
                **selection,
                "ending": ending_in(events),
                "unsupported_claims": claims_in(events),
            }
        )
    else:
        _print_run(selection)
        note_ending(ending_in(events))
        note_claims(claim["text"] for claim in claims_in(events))


def _refuse_unknown(name: str, settings: Settings, selection: Mapping[str, Any]) -> None:
    """Raises `RequestError` if a tool that the trail does not mention is not in the catalog either, or if no catalog is named."""
    if not settings.catalogs and not settings.source:
        raise RequestError(
            f"the trail of this run does not mention the tool {name!r}. It records only the best of the tools that were left out "
            f"({omission_counts(selection)}). Add --catalog SPEC to see whether the tool exists.",
            param="tool",
        )
    names = [other.name for other in catalog_of(settings)]
    if name not in names:
        raise RequestError(
            f"neither the run nor the catalog has a tool {name!r}; {name_advice(name, names)}", param="tool"
        )


def _print_tool_of_run(record: Mapping[str, Any]) -> None:
    score = "" if record["score"] is None else f", score {record['score']:.3f}"
    verdict = "in" if record["chosen"] else "out"
    echo(f"{record['tool']} was {verdict}{', but ' if record['stage'] == CALLED else ': '}{record['stage']}{score}")
    for reason in record["reasons"]:
        echo(f"  {reason}")
    for effect in record["effects"]:
        echo(f"  effect of a call: {effect}")


def _print_run(selection: Mapping[str, Any]) -> None:
    """Prints the selection of a run as a table: the selected tools, then the dropped tools that the trail names."""
    rows = [
        (tool["name"], tool["category"], f"{tool['score']:.3f}", "; ".join(tool["reasons"]))
        for tool in selection["tools"]
    ]
    rows += [
        (tool["name"], "", f"{tool['score']:.3f}", f"out: {tool['stage']}; {tool['detail']}")
        for tool in selection["dropped"]
    ]
    print_table(("tool", "category", "score", "why"), rows, right=("score",), spare=("category",))
