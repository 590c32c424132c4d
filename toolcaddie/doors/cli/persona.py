"""`toolcaddie persona`: shows the files of a bot with their versions, takes them back, exports and imports them, and forgets
people."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from toolcaddie.app.build import existing, existing_or_empty, opened
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaFile, PersonaKey
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import counted, json_option, local_time, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.personas.folders import import_content, read_folder, write_folder
from toolcaddie.personas.people import forget as forget_person
from toolcaddie.personas.people import person_data
from toolcaddie.ports import Store
from toolcaddie.util.hunks import hunks
from toolcaddie.util.user import user_name

T = TypeVar("T")

tenant_option = click.option("--tenant", default="default", show_default=True, help="Tenant whose bot is meant.")
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace texts that were changed on the other side too."
)
bot_argument = click.argument("bot")
path_argument = click.argument("path")


@click.group(
    name="persona",
    epilog="\b\nExamples:\n  toolcaddie persona list coach\n  toolcaddie persona show coach SOUL.md\n"
    "  toolcaddie persona revert coach SOUL.md 3",
)
def command() -> None:
    """Show what bots remember about themselves and people, and change it."""


@command.command("list", epilog="\b\nExample:\n  toolcaddie persona list coach")
@bot_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def list_(common: Common, bot: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the files of BOT."""
    key = PersonaKey(tenant=tenant, bot=bot)
    files = _with_store(common, database_url, lambda store: StoredPersonas(store).paths(key))
    if as_json:
        print_json({"files": files})
    elif files:
        print_table(("file", "version", "written", "by"), [_row(file) for file in files], right=("version",))
    else:
        note(f"{bot} has no files yet")


@command.command("show", epilog="\b\nExample:\n  toolcaddie persona show coach SOUL.md")
@bot_argument
@path_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def show(common: Common, bot: str, path: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """Show the file PATH of BOT."""
    file = _versions(common, database_url, tenant, bot, path)[-1]
    if as_json:
        print_json(file)
    else:
        echo(file.text, nl=not file.text.endswith("\n"))


@command.command("history", epilog="\b\nExample:\n  toolcaddie persona history coach SOUL.md")
@bot_argument
@path_argument
@tenant_option
@database_option
@json_option
@click.pass_obj
def history(common: Common, bot: str, path: str, tenant: str, database_url: str | None, as_json: bool) -> None:
    """List the versions of the file PATH of BOT, with who wrote them."""
    versions = _versions(common, database_url, tenant, bot, path)
    if as_json:
        print_json({"versions": versions})
        return
    rows = [
        (
            each.version,
            local_time(each.at),
            each.author.who,
            each.author.run_id,
            ", ".join(each.author.taint),
            each.note,
        )
        for each in versions
    ]
    print_table(("version", "written", "by", "run", "read before", "note"), rows, right=("version",))


@command.command("diff", epilog="\b\nExample:\n  toolcaddie persona diff coach SOUL.md 3 5")
@bot_argument
@path_argument
@click.argument("old", type=int, required=False)
@click.argument("new", type=int, required=False)
@tenant_option
@database_option
@json_option
@click.pass_obj
def diff(
    common: Common,
    bot: str,
    path: str,
    old: int | None,
    new: int | None,
    tenant: str,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Show what changed in PATH from version OLD to NEW; by default, the last change."""
    versions = _versions(common, database_url, tenant, bot, path)
    after = versions[-1] if new is None else _numbered(versions, new)
    before = versions[max(0, len(versions) - 2)] if old is None else _numbered(versions, old)
    lines = list(hunks(before.text.split("\n"), after.text.split("\n")))
    if as_json:
        print_json({"old": before.version, "new": after.version, "diff": "\n".join(lines)})
    else:
        echo("\n".join([f"--- {path} version {before.version}", f"+++ {path} version {after.version}", *lines]))


@command.command("revert", epilog="\b\nExample:\n  toolcaddie persona revert coach SOUL.md 3")
@bot_argument
@path_argument
@click.argument("version", type=click.IntRange(min=1))
@tenant_option
@database_option
@json_option
@click.pass_obj
def revert(
    common: Common, bot: str, path: str, version: int, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Make VERSION of the file PATH of BOT the newest one again. The versions since are kept."""
    key = PersonaKey(tenant=tenant, bot=bot)

    async def reverted(store: Store) -> PersonaFile | None:
        files = StoredPersonas(store)
        versions = _existing(await files.versions(key, path), bot, path)
        text, last = _numbered(versions, version).text, versions[-1]
        expected = 0 if last.deleted else last.version
        words = f"revert to version {version}"
        return await files.write(key, path, text, author=_author(tenant), expected=expected, note=words)

    file = _with_store(common, database_url, reverted, must_exist=True)
    if file is None:
        raise CommandFailed(f"{path} was changed at this moment; look at it again")
    if as_json:
        print_json(file)
    else:
        echo(f"{file.path} has the text of version {version} again, as version {file.version}")


@command.command("export", epilog="\b\nExample:\n  toolcaddie persona export coach personas/coach")
@bot_argument
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@overwrite_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def export(
    common: Common, bot: str, folder: Path, overwrite: bool, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Write the files of BOT into FOLDER, as markdown that people can edit."""
    key = PersonaKey(tenant=tenant, bot=bot)
    files = _with_store(common, database_url, lambda store: StoredPersonas(store).paths(key), must_exist=True)
    outcome = write_folder(folder, files, overwrite=overwrite)
    if as_json:
        print_json(outcome)
    else:
        echo(f"wrote {counted(len(outcome.written), 'file')} into {folder}")
    _refuse_changed(outcome.changed, "were edited in the folder")


@command.command("import", epilog="\b\nExample:\n  toolcaddie persona import coach personas/coach")
@bot_argument
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@overwrite_option
@tenant_option
@database_option
@json_option
@click.pass_obj
def import_(
    common: Common, bot: str, folder: Path, overwrite: bool, tenant: str, database_url: str | None, as_json: bool
) -> None:
    """Write the markdown files of FOLDER as new versions of the files of BOT."""
    key, content = PersonaKey(tenant=tenant, bot=bot), read_folder(folder)
    settings = settings_of(common, database_url=database_url)

    async def imported() -> object:
        async with opened(settings) as database:
            files = StoredPersonas(database.store)
            return await import_content(files, key, content, author=_author(tenant), overwrite=overwrite)

    outcome: object = asyncio.run(imported())
    print_json(outcome) if as_json else echo(
        f"wrote {counted(len(getattr(outcome, 'written', ())), 'file')}; "
        f"{counted(len(content.skipped), 'other file')} skipped"
    )
    _refuse_changed(getattr(outcome, "changed", ()), "were changed by the bot")


@command.command("forget", epilog="\b\nExample:\n  toolcaddie persona forget coach --person default/ann")
@bot_argument
@click.option("--person", required=True, metavar="TENANT/ID", help="The person.")
@click.option("--name", "names", multiple=True, help="A further name of the person in groups. Can be repeated.")
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
@click.option("--dry-run", is_flag=True, help="Show what would be erased, and erase nothing.")
@database_option
@json_option
@click.pass_obj
def forget(
    common: Common,
    bot: str,
    person: str,
    names: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    database_url: str | None,
    as_json: bool,
) -> None:
    """Erase all facts and messages of a person from the files and chats of BOT, versions included.

    With --dry-run --json, everything that the bot has stored about the person is exported.
    """
    key = PersonaKey(tenant=person.partition("/")[0], bot=bot)
    data = _with_store(
        common,
        database_url,
        lambda store: person_data(StoredPersonas(store), StoredChats(store), key, person, names=names),
    )
    words = f"{counted(len(data.facts), 'fact')} and {counted(len(data.messages), 'message')} of {person}"
    if not dry_run:
        if not yes and sys.stdin.isatty() and not click.confirm(f"erase {words}?", err=True):
            raise CommandFailed("nothing was erased")
        data = _with_store(
            common,
            database_url,
            lambda store: forget_person(StoredPersonas(store), StoredChats(store), key, person, names=names),
            must_exist=True,
        )
    if as_json:
        print_json({"dry_run": dry_run, "erased": data})
    else:
        echo(f"{'would erase' if dry_run else 'erased'} {words}")


def _with_store(
    common: Common, database_url: str | None, query: Callable[[Store], Awaitable[T]], *, must_exist: bool = False
) -> T:
    """Opens the database, and returns the result of the query."""
    settings = settings_of(common, database_url=database_url)

    async def answer() -> T:
        async with (existing if must_exist else existing_or_empty)(settings) as database:
            return await query(database.store)

    return asyncio.run(answer())


def _versions(common: Common, database_url: str | None, tenant: str, bot: str, path: str) -> list[PersonaFile]:
    key = PersonaKey(tenant=tenant, bot=bot)
    versions = _with_store(common, database_url, lambda store: StoredPersonas(store).versions(key, path))
    return _existing(versions, bot, path)


def _existing(versions: object, bot: str, path: str) -> list[PersonaFile]:
    files: list[PersonaFile] = list(versions)  # type: ignore[call-overload]
    if not files:
        raise RequestError(f"{bot[:64]!r} has no file {path[:100]!r}; `toolcaddie persona list` shows its files")
    return files


def _numbered(versions: list[PersonaFile], number: int) -> PersonaFile:
    for file in versions:
        if file.version == number:
            return file
    raise RequestError(f"there is no version {number}; there are {', '.join(str(each.version) for each in versions)}")


def _row(file: PersonaFile) -> tuple[object, ...]:
    return file.path, file.version, local_time(file.at), file.author.who


def _author(tenant: str) -> Author:
    return Author(who=f"{tenant}/{user_name()}")


def _refuse_changed(paths: tuple[str, ...], how: str) -> None:
    if paths:
        raise CommandFailed(f"not written, because they {how}: {', '.join(paths)}; --overwrite replaces them")
