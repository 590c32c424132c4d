"""`toolcaddie authored rename` and `scope`: change what bots see of a tool. It must be approved again then."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.authored.desk import decided, key_argument, report, tenant_option
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option
from toolcaddie.doors.cli.root import Common


@click.command("rename", epilog="\b\nExamples:\n  toolcaddie authored rename count_words word_count")
@key_argument
@click.argument("name")
@tenant_option
@database_option
@json_option
@click.pass_obj
def rename(common: Common, key: str, name: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Give the tool KEY another NAME. It waits for an approval then."""
    settings = settings_of(common, database_url=database_url)
    tool = decided(settings, tenant, lambda desk: desk.reviews.rename(desk.person, key, name))
    report(tool, as_json=as_json)


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
    """Give the tool KEY to `all` bots, or to the one bot whose id is SCOPE. It waits for an approval then."""
    settings = settings_of(common, database_url=database_url)
    tool = decided(settings, tenant, lambda desk: desk.reviews.change_scope(desk.person, key, scope))
    report(tool, as_json=as_json)
