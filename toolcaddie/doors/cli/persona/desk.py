"""The database of a command that reads or changes the files of a bot, and the options that these commands share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.runtimes import persona_folders
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaFile, PersonaKey
from toolcaddie.doors.cli.options import database_option, no_such_bot, settings_of
from toolcaddie.doors.cli.root import Common
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.personas.names import checked_path
from toolcaddie.storage.database import Database
from toolcaddie.util.user import user_name

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

bot_argument = click.argument("bot")
path_argument = click.argument("path")
_tenant_option = click.option("--tenant", default="default", show_default=True, help="Tenant whose bot is meant.")


def place_options(function: F) -> F:
    """Adds the options `--tenant` and `--database-url`."""
    return _tenant_option(database_option(function))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What one bot has stored."""

    key: PersonaKey
    files: StoredPersonas
    chats: StoredChats
    database: Database

    async def versions(self, path: str) -> Sequence[PersonaFile]:
        """Returns the versions of a file, the oldest first. Raises `RequestError` if there is none."""
        versions = await self.files.versions(self.key, checked_path(path))
        if not versions:
            raise RequestError(
                f"{self.key.bot} has no file {path}; `toolcaddie persona list {self.key.bot}` lists its files"
            )
        return versions

    async def version(self, path: str, number: int) -> PersonaFile:
        """Returns a version of a file. Raises `RequestError` if there is none of this number."""
        versions = await self.versions(path)
        file = next((each for each in versions if each.version == number), None)
        if file is None:
            raise RequestError(
                f"{path} has no version {number}; it has {', '.join(str(each.version) for each in versions)}"
            )
        return file


def on_shelf(
    common: Common,
    place: tuple[str, str, str | None],
    work: Callable[[Shelf], Awaitable[T]],
    *,
    database: Callable[[Settings], AbstractAsyncContextManager[Database]] = existing_or_empty,
) -> T:
    """Does work on what a bot has stored. `place`: the bot, its tenant and the address of the database. `database` opens it."""
    bot, tenant, database_url = place
    settings: Settings = settings_of(common, database_url=database_url)

    async def done() -> T:
        async with database(settings) as opened:
            files = StoredPersonas(opened.store, folders=persona_folders(settings))
            key = PersonaKey(tenant=tenant, bot=bot)
            if bot not in settings.bots and not await files.paths(key):  # a bot that is removed may have left files
                raise RequestError(no_such_bot(bot, settings), param="bot", code="unknown_bot")
            return await work(Shelf(key=key, files=files, chats=StoredChats(opened.store), database=opened))

    return asyncio.run(done())


def operator(tenant: str) -> Author:
    """Returns the person at the command line as an author."""
    return Author(who=f"{tenant}/{user_name()}")
