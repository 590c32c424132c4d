"""`toolcaddie settings`: shares the sources, the policy and the limits of keys with all servers on a database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from toolcaddie.app.build import assembled, existing_or_empty, opened
from toolcaddie.app.following import ServerState, server_states, share, shared_settings
from toolcaddie.app.settings import Settings
from toolcaddie.app.shared_settings import SharedSettings, bundle
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.failure import CommandFailed
from toolcaddie.doors.cli.options import database_option, settings_of
from toolcaddie.doors.cli.output import json_option, note, print_json, print_table
from toolcaddie.doors.cli.root import Common
from toolcaddie.doors.texts import counted, local_time
from toolcaddie.storage.database import Database
from toolcaddie.util.replacing import replace
from toolcaddie.util.user import user_name

T = TypeVar("T")

_WAIT = 5.0
"""Seconds for which `push` and `withdraw` wait for the servers."""
_LOOK = 0.1
"""Seconds between two looks at them."""


@click.group(
    name="settings",
    epilog="\b\nExamples:\n"
    "  toolcaddie settings push\n"
    "  toolcaddie --config new.toml settings push\n"
    "  toolcaddie settings show --json\n"
    "  toolcaddie settings withdraw",
)
def command() -> None:
    """Share sources, policy and limits of keys with all servers on a database.

    Servers take them within a second if their setting server.follow is true.
    """


@command.command(
    "push", epilog="\b\nExamples:\n  toolcaddie settings push\n  toolcaddie --config new.toml settings push --json"
)
@database_option
@json_option
@click.pass_obj
def push(common: Common, database_url: str | None, as_json: bool) -> None:
    """Share the sources, the policy and the limits of keys of the settings file, with the files that they name.

    They are tried here first: what cannot be opened is refused and not shared.
    """
    settings = settings_of(common, database_url=database_url)
    _try(settings)
    shared = bundle(settings, by=user_name(), at=time.time())

    async def publish(database: Database) -> Sequence[ServerState]:
        await share(database, shared)
        return await _settled(database, shared.version)

    states = asyncio.run(_with(opened(settings), publish))
    _report(shared, states, as_json)
    if refusals := [state for state in states if state.version != shared.version]:
        raise CommandFailed(
            f"{counted(len(refusals), 'server')} did not take version {shared.version}; see the list above"
        )


@command.command("show", epilog="\b\nExample:\n  toolcaddie settings show --json")
@database_option
@json_option
@click.pass_obj
def show(common: Common, database_url: str | None, as_json: bool) -> None:
    """Show what is shared, and which server has which version."""

    async def read(database: Database) -> tuple[SharedSettings | None, Sequence[ServerState]]:
        return await shared_settings(database.store), await server_states(database)

    settings = settings_of(common, database_url=database_url)
    shared, states = asyncio.run(_with(existing_or_empty(settings), read))
    _report(shared, states, as_json)


@command.command("withdraw", epilog="\b\nExample:\n  toolcaddie settings withdraw")
@database_option
@json_option
@click.pass_obj
def withdraw(common: Common, database_url: str | None, as_json: bool) -> None:
    """Share nothing any more: each server goes back to its own settings file."""

    async def remove(database: Database) -> Sequence[ServerState]:
        await share(database, None)
        return await _settled(database, None)

    settings = settings_of(common, database_url=database_url)
    _report(None, asyncio.run(_with(existing_or_empty(settings), remove)), as_json)


def _try(settings: Settings) -> None:
    """Opens the sources and the policy of the settings once, beside a database in memory. Raises what they raise."""

    async def open_once() -> None:
        alone = replace(settings, database_url="sqlite:///:memory:", console=replace(settings.console, enabled=False))
        async with assembled(alone):
            pass

    asyncio.run(open_once())


async def _settled(database: Database, version: str | None) -> Sequence[ServerState]:
    """Returns the states of the servers once each of them has the version or has refused it, or after some seconds."""
    since = time.time()
    states: Sequence[ServerState] = ()
    with suppress(TimeoutError):
        async with asyncio.timeout(_WAIT):
            while True:
                states = await server_states(database)
                if all(state.version == version or (state.refused and state.at >= since) for state in states):
                    break
                await asyncio.sleep(_LOOK)
    return states


def _report(shared: SharedSettings | None, states: Sequence[ServerState], as_json: bool) -> None:
    if as_json:
        print_json({"shared": None if shared is None else _sheet(shared), "servers": states})
        return
    if shared is None:
        echo("no settings are shared; each server uses its own file")
    else:
        parts = [counted(len(shared.catalogs) + len(shared.source), "source"), counted(len(shared.files), "file")]
        policy = "a policy" if shared.policy is not None else "no policy"
        echo(
            f"version {shared.version}, shared by {shared.by} {local_time(shared.at)}: {parts[0]}, {policy}, {parts[1]}"
        )
    if not states:
        note("no server follows shared settings; set server.follow = true")
        return
    rows = [(state.process, state.version or "its own", local_time(state.at), state.refused) for state in states]
    print_table(("server", "version", "since", "refused"), rows, spare=("refused",))


def _sheet(shared: SharedSettings) -> dict[str, Any]:
    return {
        "version": shared.version,
        "at": shared.at,
        "by": shared.by,
        "catalogs": shared.catalogs,
        "source": [{"type": source.type, **source.config} for source in shared.source],
        "policy": None if shared.policy is None else {"type": shared.policy.type, **shared.policy.config},
        "key_limits": shared.key_limits,
        "files": {name: len(content) for name, content in shared.files.items()},
    }


async def _with(context: Any, work: Callable[[Database], Awaitable[T]]) -> T:
    async with context as database:
        return await work(database)
