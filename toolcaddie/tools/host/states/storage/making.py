"""Makes changes of mounts, by `mount` and `umount`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import Change
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.programs import run
from toolcaddie.tools.host.states.storage.reading import BIND, TMPFS

PROGRAMS = ("mount", "umount")

_PLAIN = ("--no-mtab", "--internal-only", "--no-canonicalize")
"""No other program is started, no file is written, and no link is followed in a path."""
_OWN_OPTIONS = "--options-mode=ignore"
"""Nothing is taken from /etc/fstab."""


async def make(changes: Sequence[Change]) -> None:
    """Makes the changes: first unmounts, inner points before outer ones, then mounts in the other order. Raises `HostError`."""
    ordered = sorted(changes, key=lambda change: change.target.count("/"))
    moved = {change.target for change in ordered if _source(change.before) != _source(change.after)}
    for change in reversed(ordered):
        if change.before is not None and change.target in moved:
            await run("umount", *_PLAIN, "--", change.target)
    for change in ordered:
        if change.after is None:
            continue
        if change.target in moved:
            await _mount(change.target, change.after)
        else:
            await _remount(change.target, change.after)


def _source(attributes: JsonObject | None) -> tuple[str, str] | None:
    return None if attributes is None else (attributes["source"], attributes["fstype"])


async def _mount(point: str, after: JsonObject) -> None:
    source, fstype = after["source"], after["fstype"]
    _check_folder(point)
    if fstype == BIND:
        _check_folder(source)
        kind = ["--bind"]
    else:
        kind = ["--types", fstype]
    options = ",".join([*after["options"], *_own(after), *(["mode=0755"] if fstype == TMPFS else [])])
    await run("mount", *_PLAIN, _OWN_OPTIONS, *kind, "--options", options, "--", source, point)


async def _remount(point: str, after: JsonObject) -> None:
    """Changes the options of a mount. Those of a bind mount are changed for this mount alone."""
    write = [] if "ro" in after["options"] else ["rw"]
    how = ["remount", *(["bind"] if after["fstype"] == BIND else [])]
    options = ",".join([*how, *write, *after["options"], *_own(after)])
    await run("mount", *_PLAIN, _OWN_OPTIONS, "--options", options, "--", point)


def _own(after: JsonObject) -> list[str]:
    return [f"size={after['size']}"] if "size" in after else []


def _check_folder(path: str) -> None:
    """Raises `HostError` unless a path is a folder that is reached without links."""
    if not os.path.isdir(path) or os.path.realpath(path) != path:
        raise HostError(f"{path} is no folder, or is reached through a link; a person makes the folder first")
