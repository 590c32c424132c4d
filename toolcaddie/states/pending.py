"""Changes that wait for a confirmation, as rows of the store, so that another process finds them after a crash."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from toolcaddie.core.states import StateDiff
from toolcaddie.ports import Store

_KIND = "host_change"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is undone at its deadline."""

    diff: StateDiff
    deadline: float
    """Seconds since the epoch."""
    made: bool = False
    """False: it is being made, and it is too early to confirm it."""
    undoing: bool = False
    """True: it is being undone, and it is too late to confirm it."""


class PendingChanges:
    """The change of each plugin that waits. Whoever exchanges its row first decides whether it is confirmed or undone."""

    def __init__(self, store: Store, *, machine: str | None = None) -> None:
        self._store = store
        self._machine = _this_machine() if machine is None else machine
        """Machines that share a store must not undo each other's changes."""

    async def get(self, plugin: str) -> Pending | None:
        value = await self._store.get(_KIND, self._key(plugin))
        return None if value is None else msgspec.json.decode(value, type=Pending | None)

    async def put(self, pending: Pending) -> bool:
        """Stores a change. Returns False if another one of its plugin waits."""
        return await self._store.compare_and_set(
            _KIND, self._key(pending.diff.plugin), msgspec.json.encode(pending), expected=None
        )

    async def finish(self, pending: Pending) -> None:
        """Stores that a change has been made, unless it is being undone already."""
        made = msgspec.structs.replace(pending, made=True)
        await self._store.compare_and_set(
            _KIND, self._key(pending.diff.plugin), msgspec.json.encode(made), expected=msgspec.json.encode(pending)
        )

    async def begin_undoing(self, pending: Pending) -> bool:
        """Returns True if the change is to be undone now; False: it was confirmed, or undone."""
        if pending.undoing:
            return True
        undoing = msgspec.structs.replace(pending, undoing=True)
        return await self._store.compare_and_set(
            _KIND, self._key(pending.diff.plugin), msgspec.json.encode(undoing), expected=msgspec.json.encode(pending)
        )

    async def confirm(self, pending: Pending) -> bool:
        """Returns True if the change stays; False: it is being undone, or was."""
        stays = await self._store.compare_and_set(
            _KIND, self._key(pending.diff.plugin), b"null", expected=msgspec.json.encode(pending), ttl=1.0
        )
        if stays:
            await self.forget(pending.diff.plugin)
        return stays

    async def forget(self, plugin: str) -> None:
        await self._store.delete(_KIND, self._key(plugin))

    def _key(self, plugin: str) -> str:
        return f"{plugin} {self._machine}"


def _this_machine() -> str:
    path = Path("/etc/machine-id")
    number = path.read_text("ascii", "replace").strip()[:64] if path.is_file() else ""
    return f"{number} {os.uname().nodename}"
