"""Reads what is mounted, from the kernel's list of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import State
from toolcaddie.core.tool import JsonObject

TMPFS = "tmpfs"
BIND = "bind"
FLAGS = ("nodev", "noexec", "nosuid", "ro")
"""Options that are part of the state."""

_NO_DISKS = ("fuse", "squashfs", "iso9660")
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_SIZE = re.compile(r"(\d+)([kmg]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of the kernel's list."""

    point: str
    device: str
    """Numbers of the file system's device, `8:1`."""
    root: str
    """The folder of the file system that is seen at the mount point."""
    fstype: str
    source: str
    options: frozenset[str]
    """Of this mount only."""
    all_options: Mapping[str, str]
    """Of the file system, wherever it is mounted."""

    @property
    def size(self) -> int | None:
        """Bytes that a tmpfs may have; None: its size was not set."""
        match = _SIZE.fullmatch(self.all_options.get("size", ""))
        return int(match[1]) * _UNITS[match[2]] if match else None


def read_mounts() -> Sequence[Mount]:
    """Returns all mounts, in the order in which they were made. Raises `HostError`."""
    try:
        lines = _MOUNTS.read_text(errors="backslashreplace").splitlines()
    except OSError as error:
        raise HostError(f"{_MOUNTS} cannot be read: {error.strerror}") from error
    return [_mount(line) for line in lines]


def _mount(line: str) -> Mount:
    own, _, rest = line.partition(" - ")
    _, _, device, root, point, options, *_ = own.split(" ")
    fstype, source, more = rest.split(" ")
    pairs = (option.partition("=") for option in more.split(","))
    return Mount(
        point=_plain(point),
        device=device,
        root=_plain(root),
        fstype=fstype,
        source=_plain(source),
        options=frozenset(options.split(",")),
        all_options={name: value for name, _, value in pairs},
    )


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def state_of(mounts: Sequence[Mount], points: Iterable[str], sources: Iterable[str]) -> State:
    """Returns what is mounted at these points. `sources`: folders and devices by whose names a mount is shown."""
    top = {mount.point: mount for mount in mounts}  # of several at one point, the last one is seen
    folders = {source: place for source in sources if (place := _place(mounts, source))}
    return {point: _attributes(top[point], folders) for point in points if point in top}


def disks_of(mounts: Sequence[Mount]) -> Sequence[str]:
    """Returns a mount point of each file system on a disk, and `/`. File systems of other machines are left out, because one
    whose server is gone never answers; images of packages too, which are always full."""
    points: dict[str, str] = {}
    for mount in mounts:
        if mount.source.startswith("/dev/") and not mount.fstype.startswith(_NO_DISKS):
            points.setdefault(mount.device, mount.point)
    return sorted({"/", *points.values()})


def usages_of(points: Iterable[str], disks: Iterable[str]) -> State:
    """Returns the usage of these file systems. Disks that cannot be measured are left out. Raises `HostError`."""
    usages = {point: usage_of(point) for point in points}
    for disk in disks:
        with suppress(HostError):
            usages.setdefault(disk, usage_of(disk))
    return usages


def usage_of(point: str) -> JsonObject:
    """Returns the size of a file system in bytes, and how much of it is used and free. Raises `HostError`."""
    try:
        status = os.statvfs(point)
    except OSError as error:
        raise HostError(f"{point} cannot be measured: {error.strerror}") from error
    size, free, available = (blocks * status.f_frsize for blocks in (status.f_blocks, status.f_bfree, status.f_bavail))
    return {"bytes": size, "used_bytes": size - free, "free_bytes": available}


def _attributes(mount: Mount, folders: Mapping[str, tuple[str, str, str]]) -> JsonObject:
    for source, (point, device, root) in folders.items():
        if point != mount.point and (device, root) == (mount.device, mount.root):
            return {"source": source, "fstype": BIND, "options": _flags(mount.options)}
    source = mount.source if mount.root == "/" else f"{mount.source}[{mount.root}]"
    shown: JsonObject = {
        "source": source,
        "fstype": mount.fstype,
        "options": _flags({*mount.options, *mount.all_options}),
    }
    return {**shown, "size": mount.size} if mount.fstype == TMPFS and mount.size is not None else shown


def _flags(options: Iterable[str]) -> list[str]:
    return sorted(set(options).intersection(FLAGS))


def _place(mounts: Sequence[Mount], folder: str) -> tuple[str, str, str] | None:
    """Returns where a folder is: the point of its mount, the device, and the folder in the file system. None: it is no folder."""
    if not os.path.isdir(folder):
        return None
    path = Path(folder)
    mount = next((each for each in reversed(mounts) if path.is_relative_to(each.point)), None)
    if mount is None:
        return None
    inner = path.relative_to(mount.point)
    return mount.point, mount.device, str(Path(mount.root) / inner)
