"""`toolcaddie authored list`, `show` and `diff`: tools that bots wrote, for the person who reads them."""

from __future__ import annotations

from typing import Any, get_args

import click

from toolcaddie.doors.cli.authored.desk import Desk, asked, key_argument, tenant_option
from toolcaddie.doors.cli.authored.sheet import print_diff, print_review
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import local_time
from toolcaddie.doors.tool_sheets import asker_text
from toolcaddie.tools.authored.values import Status


@click.command(
    "list", epilog="\b\nExamples:\n  toolcaddie authored list\n  toolcaddie authored list --status approved --json"
)
@click.option("--status", type=click.Choice(get_args(Status)), help="Only tools of this state.")
@click.option("--by-bot", metavar="BOT", help="Only tools that this bot wrote.")
@tenant_option
@database_option
@json_option
@click.pass_obj
def list_(
    common: Common, status: Status | None, by_bot: str | None, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """List the tools that bots wrote.

    Those that wait for a decision come first.
    """
    settings = settings_of(common, database_url=database_url)

    async def listed(desk: Desk) -> Any:
        tools = await desk.reviews.list(desk.person, status=status, bot=by_bot)
        return tools, await desk.reviews.broken(desk.person)

    tools, broken = asked(settings, tenant, listed)
    if as_json:
        print_json({"tools": tools, "broken": broken})
        return
    if tools:
        rows = [
            (
                tool.definition.name,
                tool.status,
                tool.definition.type,
                tool.definition.scope,
                local_time(tool.created),
                asker_text(tool),
            )
            for tool in tools
        ]
        print_table(("tool", "state", "type", "for bots", "written", "asked by"), rows, spare=("written", "type"))
    else:
        note("no bot has written a tool" if status is None and by_bot is None else "no tool fits")
    for folder in broken:
        note(f"{folder.name} cannot be used: {folder.problem}")


@click.command("show", epilog="\b\nExamples:\n  toolcaddie authored show count_words")
@key_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def show(common: Common, key: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Show the tool KEY as a reviewer needs it.

    It prints the source with the findings of the checks, the parameters, who asked for it, and its digest.
    """
    settings = settings_of(common, database_url=database_url)
    review = asked(settings, tenant, lambda desk: desk.reviews.show(desk.person, key))
    if as_json:
        print_json(review)
    else:
        print_review(review)


@click.command("diff", epilog="\b\nExamples:\n  toolcaddie authored diff count_words")
@key_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def diff(common: Common, key: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Show what changed since the last approval of KEY."""
    settings = settings_of(common, database_url=database_url)
    review = asked(settings, tenant, lambda desk: desk.reviews.show(desk.person, key))
    if as_json:
        print_json({"id": review.tool.id, "digest": review.tool.digest, "diff": review.diff})
    elif review.diff:
        print_diff(review.diff)
    else:
        note("nothing was approved before" if review.tool.approved_before is None else "nothing has changed")
