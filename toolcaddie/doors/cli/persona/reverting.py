"""`toolcaddie persona revert`: a former version becomes the newest one."""

from __future__ import annotations

import click

from toolcaddie.app.build import existing
from toolcaddie.core.personas import PersonaFile
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.persona.desk import bot_argument, on_shelf, operator, path_argument, place_options
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.shelves import Shelf
from toolcaddie.util.text import visible_line


@click.command("revert", epilog="\b\nExample:\n  toolcaddie persona revert coach SOUL.md 3")
@bot_argument
@path_argument
@click.argument("version", type=int)
@place_options
@json_option
@click.pass_obj
def revert(
    common: Common, bot: str, path: str, version: int, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Write the text of VERSION as the next version of the file PATH of BOT.

    Nothing is lost: the versions in between stay.
    """

    async def reverted(shelf: Shelf) -> PersonaFile:
        return await shelf.revert(path, version, operator(tenant))

    file = on_shelf(common, (bot, tenant, database_url), reverted, database=existing)
    if as_json:
        print_json(file)
    else:
        echo(visible_line(f"{file.path} of {bot} is as in version {version} again; this is version {file.version}"))
