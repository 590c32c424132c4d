"""`toolcaddie authored rename` and `scope`: change what bots see of a tool. It must be approved again then."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.authored.desk import decided, key_argument, report, tenant_option
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note
from toolcaddie.doors.cli.root import Common
from toolcaddie.tools.authored.values import AuthoredTool
from toolcaddie.util.text import visible_line


@click.command("rename", epilog="\b\nExamples:\n  toolcaddie authored rename count_words word_count")
@key_argument
@click.argument("name")
@tenant_option
@database_option
@json_option
@click.pass_obj
def rename(common: Common, key: str, name: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Give the tool KEY another NAME.

    It waits for an approval then, and bots cannot call it.
    """
    settings = settings_of(common, database_url=database_url)
    _report(decided(settings, tenant, lambda desk: desk.reviews.rename(desk.person, key, name)), as_json=as_json)


@click.command(
    "scope",
    epilog="\b\nExamples:\n  toolcaddie authored scope count_words all\n  toolcaddie authored scope count_words reception",
)
@key_argument
@click.argument("scope")
@tenant_option
@database_option
@json_option
@click.pass_obj
def change_scope(common: Common, key: str, scope: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Give the tool KEY to other bots.

    SCOPE is `all`, or the id of the one bot. The tool waits for an approval then, and bots cannot call it.
    """
    settings = settings_of(common, database_url=database_url)
    _report(decided(settings, tenant, lambda desk: desk.reviews.change_scope(desk.person, key, scope)), as_json=as_json)


def _report(tool: AuthoredTool, *, as_json: bool) -> None:
    report(tool, as_json=as_json)
    if tool.status == "pending" and tool.approved_before is not None:
        note(f"{visible_line(tool.definition.name)} waits for approval again; until then, bots cannot call it")
