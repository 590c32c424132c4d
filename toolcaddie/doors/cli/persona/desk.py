"""The database of a command that reads or changes the files of a bot, and the options that these commands share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import click

from toolcaddie.app.build import existing_or_empty
from toolcaddie.app.runtimes import persona_folders
from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.doors.cli.options import database_option, no_such_bot, settings_of
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.shelves import Shelf
from toolcaddie.personas import StoredChats, StoredPersonas
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
