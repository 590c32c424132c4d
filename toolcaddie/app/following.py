"""Keeps the sources, the policy and the limits of a running server at their newest settings.

They change at SIGHUP, for which the settings file is read again, and, if `server.follow` is set, whenever somebody shares
settings through the database. Each following server leaves there which version it has, or why it refused the newest one.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from toolcaddie.app.build import Assembled
from toolcaddie.app.reloading import Changes
from toolcaddie.app.settings import Settings
from toolcaddie.app.shared_settings import SharedSettings, decode, encode, overlaid
from toolcaddie.core.errors import ConfigError, StorageError, ToolcaddieError
from toolcaddie.ports import Store
from toolcaddie.storage.database import Database
from toolcaddie.storage.leases import process_label
from toolcaddie.util.log import Logger

log = Logger(__name__)

_TOPIC = "settings"
_KIND = "shared_settings"
_SERVERS = "shared_settings_of"
"""The kind of the documents with the state of each server, under the label of its process."""
_STATE_SECONDS = 30 * 86_400.0


class ServerState(Struct, frozen=True, kw_only=True):
    """The version of the shared settings that one server has."""

    process: str
    version: str | None
    """None: there are none, or it could not take any yet."""
    at: float
    refused: str = ""
    """The reason why it goes on with `version` and not with the newest one; empty: it has the newest."""


async def share(database: Database, shared: SharedSettings | None) -> None:
    """Shares settings with all servers that follow, or withdraws those that were shared. Raises `StorageError`."""
    await database.notices.publish(_TOPIC, _KIND, None if shared is None else encode(shared))


async def shared_settings(documents: Store) -> SharedSettings | None:
    """Returns the settings that are shared; None: none are. Raises `StorageError` and `ConfigError`."""
    stored = await documents.get(_KIND, _TOPIC)
    try:
        return None if stored is None else decode(stored)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"the shared settings cannot be read: {error}; share them again with `toolcaddie settings push`"
        ) from error


async def server_states(database: Database) -> Sequence[ServerState]:
    """Returns the states of the servers that follow and are alive. Raises `StorageError`."""
    alive = {owner.label for owner in await database.leases.owners()}
    stored = await database.store.get_many(_SERVERS, alive)
    return [msgspec.msgpack.decode(stored[label], type=ServerState) for label in sorted(stored)]


@asynccontextmanager
async def followed(
    parts: Assembled, read: Callable[[], Settings], *, reloaded: Callable[[], None]
) -> AsyncIterator[None]:
    """Follows the settings within the block. `read` returns those of the file. `reloaded` is called after each change at SIGHUP.

    Raises `ConfigError` if settings are shared and cannot be used: a server must not begin with another policy than the others.
    """
    with TemporaryDirectory(prefix="toolcaddie-settings-") as folder:
        follower = _Follower(parts, read, Path(folder))
        if parts.settings.server.follow:
            await parts.database.notices.watch(_TOPIC, follower.take)
            await follower.begin()
        hangup = asyncio.Event()

        async def reload_at_hangup() -> None:
            while True:
                await hangup.wait()
                hangup.clear()
                if await follower.reload():
                    reloaded()

        task = asyncio.create_task(reload_at_hangup())
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
        try:
            yield
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
            task.cancel()
            await asyncio.wait({task})


class _Follower:
    """Changes the parts of this server, one change after another."""

    def __init__(self, parts: Assembled, read: Callable[[], Settings], folder: Path) -> None:
        self._parts = parts
        self._read = read
        self._folder = folder
        self._version: str | None = None
        self._one_at_a_time = asyncio.Lock()

    async def begin(self) -> None:
        """Takes the settings that are shared already. Raises `ConfigError` if they cannot be used."""
        if await shared_settings(self._parts.documents) is not None:
            await self._change()
        await self._note("")

    async def take(self) -> None:
        """Takes the newest shared settings. A mistake in them is logged and noted, and nothing changes."""
        await self._note(await self._attempt())

    async def reload(self) -> bool:
        """Reads the settings file again. Returns False if there is a mistake, which is logged."""
        refusal = await self._attempt()
        if self._parts.settings.server.follow:
            await self._note(refusal)
        return not refusal

    async def _attempt(self) -> str:
        """Changes the parts. Returns the reason if that was not possible; then they are as before."""
        try:
            changes = await self._change()
        except ToolcaddieError as error:
            log.error("sources_not_reloaded", error=str(error))
            return str(error)
        log.info(
            "sources_reloaded",
            added=list(changes.added),
            removed=list(changes.removed),
            replaced=list(changes.replaced),
            policy=changes.policy,
            tenants=list(changes.tenants),
        )
        return ""

    async def _change(self) -> Changes:
        async with self._one_at_a_time:
            settings, shared = await asyncio.to_thread(self._read), None
            if self._parts.settings.server.follow:
                shared = await shared_settings(self._parts.documents)
            if shared is not None:
                settings = await asyncio.to_thread(overlaid, settings, shared, self._folder)
            changes = await self._parts.reload(settings)
            self._version = None if shared is None else shared.version
            return changes

    async def _note(self, refusal: str) -> None:
        """Leaves the state of this server in the database. People read it; if it cannot be written, that changes nothing else."""
        state = ServerState(process=process_label(), version=self._version, at=time.time(), refused=refusal)
        with suppress(StorageError):
            await self._parts.database.store.put(
                _SERVERS, state.process, msgspec.msgpack.encode(state), ttl=_STATE_SECONDS
            )
