"""`toolcaddie eval usage`: shows how recorded runs used the catalog, and proposes default categories and related categories."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.eval.parts import evaluated_catalog, limit_option, log_of
from toolcaddie.doors.cli.options import catalog_option, database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted, local_time
from toolcaddie.evaluation.usage import SUPPORT, Usage, usage_of

_TOOLS_SHOWN = 20
_NAMES_SHOWN = 12


@click.command(
    name="usage",
    epilog="\b\nExamples:\n"
    "  toolcaddie eval usage --catalog gym\n"
    "  toolcaddie eval usage --catalog gym --role staff --json\n"
    "  toolcaddie eval usage --support 20 --all",
)
@catalog_option
@click.option("--role", help="Only runs of this role.")
@click.option("--bot", help="Only runs of this bot.")
@click.option(
    "--support",
    type=click.IntRange(min=1),
    default=SUPPORT,
    show_default=True,
    help="Minimum number of runs behind a proposal.",
)
@click.option("--all", "show_all", is_flag=True, help="List all tools, not only the most used ones.")
@limit_option
@database_option
@json_option
@click.pass_context
def usage(
    ctx: click.Context,
    catalogs: tuple[str, ...],
    role: str | None,
    bot: str | None,
    support: int,
    show_all: bool,
    limit: int,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Show the use of categories and tools, with proposals."""
    # Options of `eval` may also precede the subcommand: `toolcaddie eval --json usage`.
    as_json = as_json or bool(ctx.parent and ctx.parent.params.get("as_json"))
    parent_catalogs = ctx.parent.params.get("catalogs", ()) if ctx.parent else ()
    settings = settings_of(
        ctx.find_object(Common) or Common(), catalogs=catalogs or parent_catalogs, database_url=database_url
    )
    catalog = evaluated_catalog(settings) if settings.catalogs else None
    log = asyncio.run(log_of(settings, limit))
    runs = [run for run in log.runs if role in (None, run.role) and bot in (None, run.bot)]
    if not runs:
        kind = "role" if role else "bot"
        names = sorted({(run.role if role else run.bot) or "none" for run in log.runs})
        raise ConfigError(f"no recorded run has that {kind}; the recorded runs have: {', '.join(names)}")
    result = usage_of(runs, catalog, support=support)
    if as_json:
        print_json(_usage_json(result, catalog))
    else:
        _print(result, catalog, support=support, show_all=show_all)


def _usage_json(result: Usage, catalog: Catalog | None) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(result)
    record["catalog_known"] = catalog is not None
    return record


def _print(result: Usage, catalog: Catalog | None, *, support: int, show_all: bool) -> None:
    """Prints the use of categories and tools, the unused tokens, and the proposals. `show_all`: True for all tools, not only the
    most used ones."""
    echo(
        f"{counted(result.runs, 'run')} from {local_time(result.since)} to {local_time(result.until)}; "
        f"{result.with_calls:,} called a tool; in {result.no_match:,} nothing matched"
    )
    expansions = result.expansions
    echo(
        f"{counted(expansions.conversations, 'conversation')}: {expansions.mean:.2f} expansions each "
        f"(searches that added tools), most {expansions.most}; {expansions.several:.0%} with more than one"
    )
    if result.categories:
        echo()
        rows = [
            (use.name, use.matched, use.related, use.default, use.sent, use.called, use.missed)
            for use in result.categories
        ]
        columns = ("category", "matched", "related", "default", "sent", "called", "missed")
        print_table(columns, rows, right=columns[1:], spare=("default", "related"))
    uses = [use for use in result.tools if use.calls or show_all][: None if show_all else _TOOLS_SHOWN]
    if uses:
        echo()
        columns = ("tool", "calls", "failed", "missed", "sent", "unused tokens", "category")
        tools = [
            (use.name, use.calls, use.failed, use.missed, use.sent, f"{use.tokens:,}", use.category) for use in uses
        ]
        print_table(columns, tools, right=columns[1:-1], spare=("category", "sent"))
    echo()
    _print_idle(result, catalog)
    echo()
    _print_proposals(result, support)


def _print_idle(result: Usage, catalog: Catalog | None) -> None:
    """Prints the tokens of unused definitions, and the tools that were never called or never sent."""
    tokens = result.tokens
    if tokens.sent:
        about = "" if tokens.exact else "about "
        echo(
            f"tokens of sent definitions: {tokens.sent:,}, {tokens.sent / tokens.all:.0%} of the whole catalog in every request; "
            f"{about}{tokens.unused:,} of them ({tokens.unused / tokens.sent:.0%}) for tools that the run did not call"
            if tokens.all
            else f"tokens of sent definitions: {tokens.sent:,}; {about}{tokens.unused:,} of them for tools the run did not call"
        )
    if result.never_called:
        echo(f"sent and never called ({len(result.never_called)}): {_names(result.never_called)}")
    if catalog is None:
        note(
            "without --catalog only the tools in the trail are known; with it, tools that were never sent are listed too"
        )
    elif result.never_sent:
        echo(f"never sent and never called ({len(result.never_sent)}): {_names(result.never_sent)}")


def _print_proposals(result: Usage, support: int) -> None:
    """Prints the proposals: default categories, which are selected when nothing matches, and relations, by which a selected
    category also selects another one. `support`: the minimum number of runs behind a proposal."""
    changes = [default for default in result.defaults if default.advice != "keep"]
    for default in result.defaults:
        reason = f"called in {counted(default.runs, 'run')}, {default.share:.0%}" if default.runs else "never called"
        echo(f"default categories: {default.advice} {default.category} ({reason})")
    for pair in result.related:
        origin = "; the catalog has this relation already" if pair.known else ""
        echo(
            f"related categories: {pair.category} brings {pair.related} "
            f"({counted(pair.runs, 'run')}, {pair.confidence:.0%} of its runs, "
            f"lift {pair.lift:.1f}, at least {pair.low:.1f}){origin}"
        )
    if not changes and not any(not pair.known for pair in result.related):
        echo(f"nothing to propose: no change is supported by {support} runs or more")


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
