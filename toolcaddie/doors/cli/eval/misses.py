"""`toolcaddie eval misses`: shows the tools that recorded runs called although selection had omitted them, with hints. A hint is
a word that is added to a tool, so that selection finds the tool by it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.eval.parts import evaluated_catalog, limit_option, log_of
from toolcaddie.doors.cli.options import catalog_option, database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted, shortened
from toolcaddie.evaluation.misses import Misses, misses_of

_MESSAGE_SHOWN = 60
_UNMET_SHOWN = 5


@click.command(
    name="misses",
    epilog="\b\nExamples:\n"
    "  toolcaddie eval misses --catalog gym\n"
    "  toolcaddie eval misses --catalog gym --json\n"
    "  toolcaddie eval misses --catalog gym --write hints.jsonl",
)
@catalog_option
@click.option(
    "--support",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Minimum number of requests that missed the tool and contain the hint.",
)
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help='Write the hints to this file, one {"name": ..., "hints": [...]} a line.',
)
@limit_option
@database_option
@json_option
@click.pass_context
def misses(
    ctx: click.Context,
    catalogs: tuple[str, ...],
    support: int,
    write: Path | None,
    limit: int,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Show the tools that were called but had not been selected, with hints that find them."""
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json misses`.
    as_json = as_json or bool(ctx.parent and ctx.parent.params.get("as_json"))
    parent_catalogs = ctx.parent.params.get("catalogs", ()) if ctx.parent else ()
    settings = settings_of(
        ctx.find_object(Common) or Common(), catalogs=catalogs or parent_catalogs, database_url=database_url
    )
    catalog = evaluated_catalog(settings)
    result = misses_of(asyncio.run(log_of(settings, limit)).runs, catalog, support=support)
    patch = result.patch()
    if write is not None:
        lines = (msgspec.json.encode({"name": name, "hints": hints}).decode() + "\n" for name, hints in patch.items())
        try:
            write.write_text("".join(lines), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{write} cannot be written: {error.strerror}; name another file") from error
    if as_json:
        print_json(_misses_json(result))
        return
    _print(result)
    if write is not None:
        note(f"wrote hints for {counted(len(patch), 'tool')} to {write}")


def _misses_json(result: Misses) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(result)
    record["patch"] = {name: {"hints": hints} for name, hints in result.patch().items()}
    return record


def _print(result: Misses) -> None:
    """Prints the missed tools with their hints, then the searches after which the model called no missed tool."""
    if not result.tools and not result.unmet:
        echo(
            f"{counted(result.runs, 'run')}, {result.with_calls:,} of them called a tool; every tool that was called had been "
            "selected"
        )
        return
    rows = [
        (
            miss.tool,
            miss.missed,
            miss.served,
            ", ".join(hint.word for hint in miss.hints) if miss.known else "(not in the catalog)",
            shortened(miss.requests[-1].message, _MESSAGE_SHOWN),
        )
        for miss in result.tools
    ]
    if rows:
        print_table(
            ("tool", "missed", "served", "hints to add", "last request"),
            rows,
            right=("missed", "served"),
            spare=("served",),
        )
        echo()
    echo(
        f"{counted(result.runs, 'run')}, {result.with_calls:,} of them called a tool; "
        f"missed: {counted(len(result.tools), 'tool')}"
    )
    if result.unmet:
        echo(f"searches of the model after which it called no new tool ({len(result.unmet)}):")
        for miss in result.unmet[-_UNMET_SHOWN:]:
            echo(
                f"  {miss.by} {shortened(miss.asked, _MESSAGE_SHOWN)!r}, for: {shortened(miss.message, _MESSAGE_SHOWN)}"
            )
