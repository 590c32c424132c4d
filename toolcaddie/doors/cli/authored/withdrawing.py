"""`toolcaddie authored reject`, `revoke` and `delete`: keep a tool from running."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.authored.desk import confirm, decided, key_argument, note_option, report, tenant_option
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.root import Common
from toolcaddie.util.text import visible_line


@click.command("reject", epilog='\b\nExamples:\n  toolcaddie authored reject count_words --note "use wc"')
@key_argument
@note_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def reject(common: Common, key: str, note: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Reject the tool KEY. It can be approved later."""
    settings = settings_of(common, database_url=database_url)
    tool = decided(settings, tenant, lambda desk: desk.reviews.reject(desk.person, key, note=note))
    report(tool, as_json=as_json)


@click.command("revoke", epilog='\b\nExamples:\n  toolcaddie authored revoke count_words --note "too slow"')
@key_argument
@note_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def revoke(common: Common, key: str, note: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Withdraw the approval of the tool KEY. The next call of it is refused."""
    settings = settings_of(common, database_url=database_url)
    tool = decided(settings, tenant, lambda desk: desk.reviews.revoke(desk.person, key, note=note))
    report(tool, as_json=as_json)


@click.command(
    "delete",
    epilog="\b\nExamples:\n  toolcaddie authored delete count_words\n  toolcaddie authored delete count_words --yes",
)
@key_argument
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
@tenant_option
@database_option
@json_option
@click.pass_obj
def delete(common: Common, key: str, yes: bool, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Delete the tool KEY with all its versions.

    A tool whose folder is broken can be deleted too. At a terminal you are asked first.
    """
    if not yes:
        confirm(f"delete {visible_line(key)} with all its versions?", "nothing was deleted")
    settings = settings_of(common, database_url=database_url)
    decided(settings, tenant, lambda desk: desk.reviews.delete(desk.person, key))
    if as_json:
        print_json({"deleted": key})
    else:
        echo(f"deleted {key}")
