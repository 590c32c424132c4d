"""`toolcaddie persona list`, `show`, `history` and `diff`: they change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import click

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaFile
from toolcaddie.doors.cli.authored.sheet import print_diff
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.persona.desk import bot_argument, on_shelf, path_argument, place_options
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.shelves import Shelf, difference, version_head
from toolcaddie.doors.texts import local_time
from toolcaddie.util.text import visible_line


@click.command("list", epilog="\b\nExamples:\n  toolcaddie persona list coach\n  toolcaddie persona list coach --json")
@bot_argument
@place_options
@json_option
@click.pass_obj
def list_(common: Common, bot: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the files of BOT."""

    async def listed(shelf: Shelf) -> Sequence[PersonaFile]:
        return await shelf.files.paths(shelf.key)

    files = on_shelf(common, (bot, tenant, database_url), listed)
    if as_json:
        print_json({"files": [{**version_head(file), "bytes": len(file.text.encode())} for file in files]})
    elif files:
        rows = [
            (file.path, file.version, f"{len(file.text.encode()):,}", local_time(file.at), _author(file.author))
            for file in files
        ]
        print_table(("file", "version", "bytes", "written", "by"), rows, right=("version", "bytes"), spare=("bytes",))
    else:
        note(f"{bot} has no files")


@click.command("show", epilog="\b\nExample:\n  toolcaddie persona show coach SOUL.md")
@bot_argument
@path_argument
@click.option("--version", type=int, help="A former version. [default: the newest]")
@place_options
@json_option
@click.pass_obj
def show(
    common: Common, bot: str, path: str, version: int | None, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Print the file PATH of BOT."""

    async def shown(shelf: Shelf) -> PersonaFile:
        return (await shelf.versions(path))[-1] if version is None else await shelf.version(path, version)

    file = on_shelf(common, (bot, tenant, database_url), shown)
    if as_json:
        print_json(file)
    elif file.deleted:
        raise RequestError(
            f"{path} is deleted in version {file.version}; `toolcaddie persona history {bot} {path}` lists its versions"
        )
    else:
        echo(file.text, nl=not file.text.endswith("\n"))


@click.command("history", epilog="\b\nExample:\n  toolcaddie persona history coach SOUL.md")
@bot_argument
@path_argument
@place_options
@json_option
@click.pass_obj
def history(common: Common, bot: str, path: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the versions of the file PATH of BOT, the newest first.

    Of each version: who wrote it, in which run, and the tools whose untrusted results that run had read.
    """

    async def listed(shelf: Shelf) -> Sequence[PersonaFile]:
        return (await shelf.versions(path))[::-1]

    versions = on_shelf(common, (bot, tenant, database_url), listed)
    if as_json:
        print_json({"versions": [version_head(file) for file in versions]})
        return
    rows = [
        (file.version, local_time(file.at), _author(file.author), file.author.run_id, _remark(file))
        for file in versions
    ]
    print_table(("version", "written", "by", "run", "note"), rows, right=("version",), spare=("run", "written"))


@click.command(
    "diff",
    epilog="\b\nExamples:\n  toolcaddie persona diff coach SOUL.md\n  toolcaddie persona diff coach SOUL.md 3 5",
)
@bot_argument
@path_argument
@click.argument("a", type=int, required=False)
@click.argument("b", type=int, required=False)
@place_options
@json_option
@click.pass_obj
def diff(
    common: Common,
    bot: str,
    path: str,
    a: int | None,
    b: int | None,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Print the difference between version A and version B of the file PATH of BOT.

    Without B, it is the newest version; without A, the one before it.
    """

    async def compared(shelf: Shelf) -> tuple[PersonaFile | None, PersonaFile]:
        versions = await shelf.versions(path)
        new = versions[-1] if b is None else await shelf.version(path, b)
        if a is not None:
            return await shelf.version(path, a), new
        return (versions[-2] if len(versions) > 1 else None), new

    old, new = on_shelf(common, (bot, tenant, database_url), compared)
    first, text = 0 if old is None else old.version, difference(old, new)
    if as_json:
        print_json({"a": first, "b": new.version, "diff": text})
    elif text:
        print_diff(text)
    else:
        note(visible_line(f"{path} is the same in version {first} and version {new.version}"))


def _author(author: Author) -> str:
    return f"{author.who} (after {', '.join(author.taint)})" if author.taint else author.who


def _remark(file: PersonaFile) -> str:
    return file.note or ("deleted" if file.deleted else "")
