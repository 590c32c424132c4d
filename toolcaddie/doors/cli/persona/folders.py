"""`toolcaddie persona export` and `import`: the files of a bot as a folder of markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from toolcaddie.app.build import opened
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, note, print_json
from toolcaddie.doors.cli.persona.desk import bot_argument, on_shelf, operator, place_options
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.shelves import Shelf
from toolcaddie.doors.texts import counted
from toolcaddie.personas.folders import Exported, Imported, import_content, read_folder, write_folder
from toolcaddie.util.text import visible_line

_folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.command("export", epilog="\b\nExample:\n  toolcaddie persona export coach personas/coach")
@bot_argument
@_folder_argument
@click.option("--overwrite", is_flag=True, help="Replace files of the folder that people have changed.")
@place_options
@json_option
@click.pass_context
def export(
    ctx: click.Context,
    bot: str,
    folder: Path,
    overwrite: bool,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Write the files of BOT into FOLDER, where people can read and edit them.

    A file that people have changed there is left as it is, and the exit code is 1.
    """

    async def exported(shelf: Shelf) -> Exported:
        return write_folder(folder, await shelf.files.paths(shelf.key), overwrite=overwrite)

    outcome = on_shelf(ctx.find_object(Common) or Common(), (bot, tenant, database_url), exported)
    if as_json:
        print_json(outcome)
    else:
        echo(
            visible_line(
                f"{counted(len(outcome.written), 'file')} written to {folder}, {len(outcome.unchanged):,} as before"
            )
        )
        _note_changed(outcome.changed, "differs there")
    ctx.exit(1 if outcome.changed else 0)


@click.command("import", epilog="\b\nExample:\n  toolcaddie persona import coach personas/coach")
@bot_argument
@_folder_argument
@click.option("--overwrite", is_flag=True, help="Replace files that the bot has changed.")
@place_options
@json_option
@click.pass_context
def import_(
    ctx: click.Context,
    bot: str,
    folder: Path,
    overwrite: bool,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Write the files of FOLDER as new versions of the files of BOT.

    A file that the bot has changed since the export is left as it is, and the exit code is 1.
    """

    async def imported(shelf: Shelf) -> Imported:
        content = read_folder(folder)
        return await import_content(shelf.files, shelf.key, content, author=operator(tenant), overwrite=overwrite)

    outcome = on_shelf(ctx.find_object(Common) or Common(), (bot, tenant, database_url), imported, database=opened)
    if as_json:
        print_json(outcome)
    else:
        echo(f"{counted(len(outcome.written), 'file')} written, {len(outcome.unchanged):,} as before")
        for path in outcome.skipped:
            note(visible_line(f"{path} is not a persona file, and was left out"))
        _note_changed(outcome.changed, "is not as it was exported to this folder")
    ctx.exit(1 if outcome.changed else 0)


def _note_changed(paths: Sequence[str], why: str) -> None:
    for path in paths:
        note(visible_line(f"{path} {why}, and was not written; --overwrite replaces it"))
