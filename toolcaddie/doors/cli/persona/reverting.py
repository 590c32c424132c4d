"""`toolcaddie persona revert`: a former version becomes the newest one."""

from __future__ import annotations

import click

from toolcaddie.app.build import existing
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import PersonaFile
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, print_json
from toolcaddie.doors.cli.persona.desk import Shelf, bot_argument, on_shelf, operator, path_argument, place_options
from toolcaddie.doors.cli.root import Common
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
        former = await shelf.version(path, version)
        newest = (await shelf.versions(path))[-1]
        if former.deleted:
            raise RequestError(f"{path} is deleted in version {version}, so there is nothing to put back")
        if former.text == newest.text and not newest.deleted:
            raise RequestError(f"{path} is as in version {version} already")
        file = await shelf.files.write(
            shelf.key,
            former.path,
            former.text,
            author=operator(tenant),
            expected=0 if newest.deleted else newest.version,
            note=f"revert to version {version}",
        )
        if file is None:
            raise RequestError(f"{path} was changed at this moment, so nothing was written; look at it, and try again")
        return file

    file = on_shelf(common, (bot, tenant, database_url), reverted, database=existing)
    if as_json:
        print_json(file)
    else:
        echo(visible_line(f"{file.path} of {bot} is as in version {version} again; this is version {file.version}"))
