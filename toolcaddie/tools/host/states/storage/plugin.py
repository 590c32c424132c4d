"""The plugin itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from toolcaddie.core.errors import ConfigError, HostError
from toolcaddie.core.numbers import DiskBytes
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.sources.functions.threads import Threads, TooManyHangingError
from toolcaddie.tools.host.programs import place_of
from toolcaddie.tools.host.states.storage.making import PROGRAMS, make
from toolcaddie.tools.host.states.storage.planning import Rules, planned
from toolcaddie.tools.host.states.storage.reading import FLAGS, TMPFS, disks_of, read_mounts, state_of, usages_of

_GIGABYTE = 1 << 30
_SECONDS = 10.0
_SYS_ADMIN = 1 << 21
_SYSTEM = ("/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/root")
_WHOLE = ("/", "/var", "/home", "/tmp")
_TEXT: dict[str, Any] = {"type": "string", "maxLength": 200}
_ATTRIBUTES: dict[str, Any] = {
    "source": {**_TEXT, "description": "tmpfs, a folder (a bind mount) or a device, of those that the settings name"},
    "fstype": {**_TEXT, "description": "Needed for a device only"},
    "options": {
        "type": "array",
        "items": {"enum": list(FLAGS)},
        "uniqueItems": True,
        "description": "nosuid and nodev are always there",
    },
    "size": {"type": "integer", "minimum": 1, "description": "Bytes, of a tmpfs"},
}


class StoragePlugin:
    """Implements `ports.StatePlugin`."""

    name = "storage"
    description = (
        "Mounts by mount point: source, fstype, options, size (of a tmpfs); the query also shows free disk space."
    )
    attributes: ClassVar[JsonObject] = {"type": "object", "properties": _ATTRIBUTES, "additionalProperties": False}
    may_lock_out = False

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._threads: Threads[State] = Threads()

    async def query(self) -> State:
        return await self._read(
            lambda: state_of(read_mounts(), sorted(self._rules.points), sorted(self._rules.sources))
        )

    async def measures(self) -> State:
        """Returns the bytes of each disk and each mount of the state, and how many of them are used and free."""
        points = tuple(await self.query())
        return await self._read(lambda: usages_of(points, disks_of(read_mounts())))

    async def _read(self, reading: Callable[[], State]) -> State:
        """Reads in a thread, because a file system whose server is gone never answers."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._threads.run(reading)
        except TimeoutError as error:
            raise HostError(f"a file system did not answer within {_SECONDS:g} seconds") from error
        except TooManyHangingError as error:
            raise HostError(f"file systems do not answer: {error}") from error

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(self._rules, target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        before, after = change.before or {}, change.after or {}
        unmounts = bool(before) and any(before.get(key) != after.get(key) for key in ("source", "fstype"))
        kinds = (*(["unmount"] if unmounts else []), *(["mount"] if after else []))
        return tuple(f"storage.{kind} {change.target}" for kind in kinds)

    def question(self, change: Change) -> str:
        """Returns a question about a tmpfs that something else takes the place of: its files are lost."""
        before, after = change.before or {}, change.after or {}
        if before.get("source") == TMPFS and after.get("source") != TMPFS:
            return f"removes the files of the tmpfs at {change.target} for good"
        return ""

    async def apply(self, changes: Sequence[Change]) -> None:
        await make(changes)

    async def back_ends(self) -> Sequence[BackEnd]:
        missing = [program for program in PROGRAMS if place_of(program) is None]
        if missing:
            detail = f"missing: {', '.join(missing)}"
            return [
                BackEnd(name="mount", present=False, detail=detail, remedy="install the package mount (util-linux)")
            ]
        if not _may_mount():
            detail = "mounts can be read, but this process may not change them"
            return [BackEnd(name="mount", present=False, detail=detail, remedy="run the server as root")]
        count = len(self._rules.points)
        return [BackEnd(name="mount", present=True, detail=f"{count} mount point{'s' * (count != 1)} in the settings")]

    async def close(self) -> None:
        """Does nothing: no connection stays open."""


def _may_mount() -> bool:
    """Returns whether this process has the capability CAP_SYS_ADMIN."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("CapEff:") and int(line.split()[1], 16) & _SYS_ADMIN for line in lines)


def storage(
    *, points: tuple[str, ...] = (), sources: tuple[str, ...] = (), tmpfs_bytes: DiskBytes = _GIGABYTE
) -> StoragePlugin:
    """Returns the plugin. `points`: folders at which something may be mounted. `sources`: what may be mounted: `tmpfs`, folders
    (as bind mounts) and devices below /dev. `tmpfs_bytes`: the largest size of a tmpfs. Raises `ConfigError`."""
    for setting, path in (
        *(("points", each) for each in points),
        *(("sources", each) for each in sources if each != TMPFS),
    ):
        if not os.path.isabs(path) or path != os.path.normpath(path) or not path.isprintable() or "," in path:
            raise ConfigError(f"plugin storage: {setting}: {path!r} is no plain absolute path")
    for path in points:
        if path in _WHOLE or any(Path(path).is_relative_to(folder) for folder in _SYSTEM):
            raise ConfigError(f"plugin storage: points: {path} belongs to the system; name a folder such as /mnt/data")
    return StoragePlugin(Rules(points=frozenset(points), sources=frozenset(sources), tmpfs_bytes=tmpfs_bytes))
