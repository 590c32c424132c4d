"""`toolcaddie authored approve` and `rollback`: let exactly these bytes run."""

from __future__ import annotations

import click

from toolcaddie.app.settings import Settings
from toolcaddie.doors.cli.authored.desk import (
    Desk,
    asked,
    confirm,
    decided,
    key_argument,
    note_option,
    report,
    tenant_option,
)
from toolcaddie.doors.cli.authored.sheet import print_review
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option
from toolcaddie.doors.cli.root import Common
from toolcaddie.tools.authored.values import AuthoredTool


@click.command(
    "approve",
    epilog="\b\nExamples:\n"
    "  toolcaddie authored approve count_words\n"
    '  toolcaddie authored approve count_words --note "read it"\n'
    "  toolcaddie authored approve count_words --digest 3f2a9c...",
)
@key_argument
@click.option(
    "--digest",
    default="",
    help="Approve only the state with this whole digest, as `show` prints it. [default: the state that this command prints]",
)
@note_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def approve(
    common: Common, key: str, digest: str, note: str, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Approve exactly the present bytes of the tool KEY.

    They are its source, description, parameters and scope.

    Without --digest, the tool is printed first, and at a terminal you are asked. If a byte changes meanwhile, nothing is
    approved. The policy says who may approve (`policy.approvers`). Nobody may approve a tool that was written in their own name.
    """
    settings = settings_of(common, database_url=database_url)
    seen = digest or _shown_digest(settings, tenant, key, quiet=as_json)

    async def approved(desk: Desk) -> AuthoredTool:
        return await desk.reviews.approve(desk.person, key, digest=seen, note=note)

    report(decided(settings, tenant, approved), as_json=as_json)


def _shown_digest(settings: Settings, tenant: str, key: str, *, quiet: bool) -> str:
    """Prints the tool as it is now, asks the person at the terminal, and returns the digest of what was printed."""
    review = asked(settings, tenant, lambda desk: desk.reviews.show(desk.person, key))
    if not quiet:
        print_review(review, err=True)
    confirm("approve exactly this?", "nothing was approved")
    return review.tool.digest


@click.command(
    "rollback",
    epilog="\b\nExamples:\n"
    "  toolcaddie authored rollback count_words 1\n"
    '  toolcaddie authored rollback count_words 2 --note "3 is slow"',
)
@key_argument
@click.argument("version", type=click.IntRange(min=1))
@note_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def rollback(
    common: Common, key: str, version: int, note: str, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Put an approved VERSION of the tool KEY back.

    It is approved again.
    """
    settings = settings_of(common, database_url=database_url)

    async def back(desk: Desk) -> AuthoredTool:
        return await desk.reviews.rollback(desk.person, key, version, note=note)

    report(decided(settings, tenant, back), as_json=as_json)
