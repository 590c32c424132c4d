"""An empty file and an empty folder of the host, which commands see instead of hidden ones."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "toolcaddie-empty-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    """The paths of an empty file and of an empty folder."""

    file: str
    folder: str


class BlankPlace:
    """A temporary folder with both. It is removed when this object or its process ends; if that was killed, by the next one."""

    def __init__(self) -> None:
        _remove_left()
        place = tempfile.mkdtemp(prefix=_PREFIX)
        lock = _locked(place)
        folder, file = Path(place, "folder"), Path(place, "file")
        folder.mkdir(mode=0o555)
        file.touch(mode=0o444)
        self.blank = Blank(file=str(file), folder=str(folder))
        weakref.finalize(self, _remove, place, lock)


def _remove(place: str, lock: int) -> None:
    shutil.rmtree(place, ignore_errors=True)
    os.close(lock)


def _remove_left() -> None:
    """Removes those of processes that were killed: nobody holds their locks."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is in use, or belongs to somebody else
            if place.stat().st_uid == os.geteuid() and os.listdir(place):  # an empty one is being made at this moment
                _remove(str(place), _locked(str(place)))


def _locked(place: str) -> int:
    """Returns a folder, opened and locked. Raises `OSError` if another process has locked it."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
