"""`toolcaddie authored`: lists the tools that bots wrote, shows them, and decides about them."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.authored.approving import approve, rollback
from toolcaddie.doors.cli.authored.changing import change_scope, rename
from toolcaddie.doors.cli.authored.looking import diff, list_, show
from toolcaddie.doors.cli.authored.trying import run
from toolcaddie.doors.cli.authored.withdrawing import delete, reject, revoke


@click.group(
    name="authored",
    epilog="\b\nExamples:\n"
    "  toolcaddie authored list\n"
    "  toolcaddie authored show count_words\n"
    '  toolcaddie authored approve count_words --note "read it"\n'
    "  toolcaddie authored revoke count_words",
)
def command() -> None:
    """List the tools that bots wrote, and decide about them.

    A tool runs only after a person has approved exactly its present bytes. A decision counts for the next request of a running
    server. KEY is the name or the id of a tool.
    """


for _each in (list_, show, diff, run, approve, reject, revoke, rollback, rename, change_scope, delete):
    command.add_command(_each)
