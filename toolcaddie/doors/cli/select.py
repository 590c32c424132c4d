"""`toolcaddie select`: shows the tools that would be selected for a message.

It sends no request to a model. It opens the database only if an embedder is set or learning is on.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from toolcaddie.app.classifying import is_never_asked
from toolcaddie.app.runtimes import offline
from toolcaddie.app.settings import Settings
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.history import history_option, read_history
from toolcaddie.doors.cli.options import (
    Match,
    bot_option,
    box_option,
    catalog_option,
    max_tools_option,
    preset_option,
    settings_of,
)
from toolcaddie.doors.cli.output import json_option, note, note_degraded, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import shortened

_REASONS_SHOWN = 3
_NEAREST = 5
"""The largest number of tools that are named although they were not selected, those with the highest scores."""

match_option = click.option(
    "--match", type=click.Choice(["word", "substring"]), help="Keywords match whole words, or anywhere in the text."
)


@click.command(
    name="select",
    epilog="\b\nExamples:\n"
    '  toolcaddie select "freeze John\'s membership" --catalog gym\n'
    '  toolcaddie select "who came today" --catalog gym --preset keyword --json\n'
    '  toolcaddie select "yes, do it" --catalog tools.jsonl --history earlier.jsonl',
)
@click.argument("message")
@catalog_option
@box_option
@preset_option
@bot_option
@match_option
@history_option
@max_tools_option
@json_option
@click.pass_obj
def command(
    common: Common,
    message: str,
    catalogs: tuple[str, ...],
    box: tuple[str, ...],
    preset: str | None,
    bot: str | None,
    match: Match | None,
    history: Path | None,
    max_tools: int | None,
    as_json: bool,
) -> None:
    """Show the tools that would be selected for MESSAGE."""
    settings = settings_of(common, catalogs=catalogs, box=box, preset=preset, match=match, max_tools=max_tools, bot=bot)
    messages = (*read_history(history), Message(role="user", content=message))
    runtime = offline(settings)
    selection, delivery = runtime.preview(RunRequest(messages=messages))
    note_degraded(runtime)
    note_skipped_classifier(settings)
    if as_json:
        print_json({**selection_json(selection, delivery), "degraded": runtime.degraded})
    else:
        _print_selection(selection, delivery)


def note_skipped_classifier(settings: Settings) -> None:
    """Prints a remark if a run would ask the classifier, because this command does not."""
    if settings.classifier.model is not None and not is_never_asked(settings):
        note("the classifier is not asked here; a run asks it, and may select tools of other categories")


def selection_json(selection: Selection, delivery: Delivery) -> dict[str, Any]:
    """Returns the JSON of `select --json`. `counts.selected` is the number of selected tools, core tools included. `counts.sent`
    also counts the meta tools, which are Toolcaddie's own, such as `search_tools`."""
    return {
        "tools": [
            {
                "name": entry.tool.name,
                "category": entry.tool.category,
                "score": entry.score,
                "reasons": tuple(entry.reasons),
                "core": entry.core,
            }
            for entry in selection.tools
        ],
        "meta": delivery.meta,
        "categories": selection.categories,
        "matched": selection.matched,
        "no_match": selection.no_match,
        "dropped": tuple(selection.dropped),
        "counts": {
            "catalog": selection.catalog_size,
            "selected": len(selection.tools),
            "sent": len(delivery.definitions),
        },
        "tokens": {"all": selection.tokens_all, "sent": delivery.tokens},
    }


def _print_selection(selection: Selection, delivery: Delivery) -> None:
    """Prints the selected tools, the numbers of tools and tokens, and the number of tools that each stage of the selection
    dropped."""
    rows = [
        (entry.tool.name, entry.tool.category, f"{entry.score:.3f}", _reasons_text(entry)) for entry in selection.tools
    ]
    if rows:
        print_table(("tool", "category", "score", "why"), rows, right=("score",), spare=("category",))
        echo()
    meta = f", with {', '.join(delivery.meta)}" if delivery.meta else ""
    echo(f"{len(selection.tools)} of {selection.catalog_size} tools selected; {len(delivery.definitions)} sent{meta}")
    echo(f"{delivery.tokens:,} of {selection.tokens_all:,} tokens")
    stages = Counter(tool.stage for tool in selection.dropped)
    if cut := stages["provider_cap"]:
        echo(f"cut to the number of tools that the provider takes: {cut} more would have been sent")
    if selection.no_match:
        echo("nothing in the catalog fits this message")
    if selection.dropped:
        echo("left out: " + ", ".join(f"{count} {stage}" for stage, count in stages.most_common()))
        nearest = sorted((tool for tool in selection.dropped if tool.score), key=lambda tool: -tool.score)[:_NEAREST]
        if nearest:
            echo("nearest of these: " + ", ".join(tool.name for tool in nearest))


def _reasons_text(entry: SelectedTool) -> str:
    """Returns the first reasons for a selected tool."""
    return shortened("; ".join(entry.reasons[:_REASONS_SHOWN]), 100)
