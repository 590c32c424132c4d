"""Judges changes of mounts, and plans what they lead to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.storage.reading import BIND, TMPFS

ALWAYS = frozenset({"nosuid", "nodev"})
"""Options of every mount, so that no file on it gives permissions."""
FILE_SYSTEMS = ("btrfs", "ext2", "ext3", "ext4", "exfat", "iso9660", "udf", "vfat", "xfs")
"""Types of devices."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of the settings."""

    points: frozenset[str]
    sources: frozenset[str]
    """`tmpfs`, folders, and devices below /dev."""
    tmpfs_bytes: int


def planned(rules: Rules, point: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
    """Returns the attributes after a change, as `ports.StatePlugin.planned` does. Raises `RequestError`."""
    if point not in rules.points:
        known = ", ".join(sorted(rules.points)) or "none"
        raise RequestError(f"{point[:200]!r} is no mount point of the settings; there are: {known}")
    after = None if desired is None else _mounted(rules, point, _merged(desired, current))
    if current is not None and after != current and not _can_be_restored(rules, point, current):
        raise RequestError(
            f"{point}: what is mounted there now could not be mounted again in the same way, so it is not changed; "
            "its source is not among the sources of the settings, or its options are others"
        )
    return after


def _merged(desired: JsonObject, current: JsonObject | None) -> JsonObject:
    """Returns all attributes that are meant. With another source, the old type and size mean nothing."""
    old: Mapping[str, Any] = current or {}
    if desired.get("source", old.get("source")) != old.get("source"):
        old = {"options": old.get("options", [])}
    return {**old, **desired}


def _mounted(rules: Rules, point: str, wanted: JsonObject) -> JsonObject:
    source = wanted.get("source")
    if source not in rules.sources:
        known = ", ".join(sorted(rules.sources)) or "none"
        raise RequestError(f"{point}: {str(source)[:200]!r} is no source of the settings; there are: {known}")
    size = {"size": _size(rules, point, wanted.get("size", rules.tmpfs_bytes))} if source == TMPFS else {}
    if not size and "size" in wanted:
        raise RequestError(f"{point}: only a tmpfs has a size")
    options = sorted(ALWAYS.union(wanted.get("options", ())))
    return {"source": source, "fstype": _fstype(point, source, wanted.get("fstype")), "options": options, **size}


def _fstype(point: str, source: str, given: str | None) -> str:
    """Returns the type of a source's file system. Raises `RequestError` for one that it cannot have."""
    allowed = (TMPFS,) if source == TMPFS else FILE_SYSTEMS if source.startswith("/dev/") else (BIND,)
    if given is None and len(allowed) == 1:
        return allowed[0]
    if given is None or given not in allowed:
        raise RequestError(f"{point}: the fstype of {source} is one of {', '.join(allowed)}")
    return given


def _size(rules: Rules, point: str, size: int) -> int:
    """Returns the size in whole pages, as the kernel counts them."""
    rounded = -(-size // _PAGE) * _PAGE
    if not 0 < rounded <= rules.tmpfs_bytes:
        raise RequestError(f"{point}: a tmpfs may have at most {rules.tmpfs_bytes:,} bytes (tmpfs_bytes)")
    return rounded


def _can_be_restored(rules: Rules, point: str, current: JsonObject) -> bool:
    try:
        return _mounted(rules, point, current) == current
    except RequestError:
        return False
