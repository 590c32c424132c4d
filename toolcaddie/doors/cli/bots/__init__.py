"""`toolcaddie bots`: lists the bots of the settings, shows one with its tools and its budget, and adds one."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.bots.looking import list_, show
from toolcaddie.doors.cli.bots.new import new


@click.group(
    name="bots",
    epilog="\b\nExamples:\n"
    "  toolcaddie bots list\n"
    "  toolcaddie bots show therapist\n"
    "  toolcaddie bots new librarian --language es",
)
def command() -> None:
    """List the bots of the settings, show one, and add one."""


for _each in (list_, show, new):
    command.add_command(_each)
