"""`toolcaddie authored reject`, `revoke` and `delete`: keep a tool from running."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.authored.desk import decided, key_argument, note_option, report, tenant_option
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.root import Common


@click.command("reject", epilog='\b\nExamples:\n  toolcaddie authored reject count_words --note "use wc"')
@key_argument
@note_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def reject(common: Common, key: str, note: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Reject the tool KEY, which waits for a decision. It stays, and can be approved later."""
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


@click.command("delete", epilog="\b\nExamples:\n  toolcaddie authored delete count_words")
@key_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def delete(common: Common, key: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Delete the tool KEY with all its versions, also one whose folder is broken."""
    settings = settings_of(common, database_url=database_url)
    decided(settings, tenant, lambda desk: desk.reviews.delete(desk.person, key))
    if as_json:
        print_json({"deleted": key})
    else:
        echo(f"deleted {key}")
