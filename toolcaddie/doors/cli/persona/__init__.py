"""`toolcaddie persona`: the files of a bot with all their versions, its folder, and what it stores about a person."""

from __future__ import annotations

import click

from toolcaddie.doors.cli.persona.folders import export, import_
from toolcaddie.doors.cli.persona.people import forget
from toolcaddie.doors.cli.persona.reading import diff, history, list_, show
from toolcaddie.doors.cli.persona.reverting import revert


@click.group(
    name="persona",
    epilog="\b\nExamples:\n"
    "  toolcaddie persona list coach\n"
    "  toolcaddie persona diff coach SOUL.md\n"
    "  toolcaddie persona revert coach SOUL.md 3\n"
    "  toolcaddie persona forget coach --person default/ann",
)
def command() -> None:
    """Read, compare, put back, export and forget what a bot has stored.

    BOT is the name of a bot, PATH one of its files: SOUL.md, IDENTITY.md, GOALS.md, MOTIVATIONS.md, memory/YYYY-MM-DD.md or
    notes/NAME.md.
    """


for _each in (list_, show, history, diff, revert, export, import_, forget):
    command.add_command(_each)
