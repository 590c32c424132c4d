"""What is covered in the work folder of a command: hidden files, and for commands that only read, pipes and sockets, through
which they could act on other programs.

The functions read the file system, so they belong into a thread.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolcaddie.core.errors import SandboxError
from toolcaddie.guards.openat2 import BENEATH, NO_LINKS, NO_MAGIC_LINKS, open_beneath
from toolcaddie.ports import Command
from toolcaddie.ports.sandbox import WORK
from toolcaddie.sandbox.blank import Blank

_MOST = 500
"""The largest number of masks of a command, because the time that bubblewrap takes for them grows with their square."""
_SECONDS, _PAUSE = 20.0, 0.001
_NO_LINKS = BENEATH | NO_LINKS | NO_MAGIC_LINKS

Identity = tuple[int, int]
"""The device and the inode of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A file or folder of the work folder that is covered."""

    path: str
    """Its real path on the host."""
    identity: Identity
    is_folder: bool

    def blank(self, blank: Blank) -> str:
        return blank.folder if self.is_folder else blank.file


def masks(command: Command) -> Sequence[Mask]:
    """Returns what a command must not see. Raises `SandboxError` if some of it has vanished: it may have another name now."""
    if command.work is None:
        return ()
    work = os.path.realpath(command.work)
    seen: Mapping[str, Mask] = {mask.path: mask for mask in _hidden(work, command.hidden)}
    if not command.writable:
        seen = {**seen, **{mask.path: mask for mask in _doors(work, frozenset(seen))}}
    seen = {path: mask for path, mask in seen.items() if not any(str(each) in seen for each in Path(path).parents)}
    seen = _fewer(seen, work, os.path.realpath(os.path.join(work, command.folder)))
    if len(seen) > _MOST:
        raise SandboxError(
            f"{command.work} has {len(seen):,} files that are hidden, and at most {_MOST:,} can be; move them into a folder "
            "below it, which is then hidden as a whole, or use a smaller work folder"
        )
    return list(seen.values())


def _fewer(masks: Mapping[str, Mask], work: str, start: str) -> Mapping[str, Mask]:
    """Covers whole folders with many hidden files, as long as there are too many masks, but none in which the command starts."""
    counts = Counter(os.path.dirname(path) for path in masks)
    for folder, _ in counts.most_common():
        if len(masks) <= _MOST:
            break
        if folder != work and not f"{start}/".startswith(f"{folder}/"):
            masks = {path: each for path, each in masks.items() if not path.startswith(f"{folder}/")}
            masks = {**masks, folder: _mask(folder)}
    return masks


def check_covered(masks: Sequence[Mask], work: Path, blank: Blank, pid: int, is_over: Callable[[], bool]) -> None:
    """Returns when the process sees all masks, and each lies over the file that it was made for, or when `is_over`.

    Raises `SandboxError` if that does not happen: somebody has moved a file meanwhile.
    """
    end = time.monotonic() + _SECONDS
    real = os.path.realpath(work)
    blanks = {path: _identity(os.stat(path)) for path in (blank.file, blank.folder)}
    pending = list(masks)
    while True:
        pending = [each for each in pending if _seen(each.path[len(real) :], pid) != blanks[each.blank(blank)]]
        if is_over():
            return
        if moved := next((each for each in masks if _on_host(each) != each.identity), None):
            raise SandboxError(
                f"{os.path.relpath(moved.path, real)} was moved or replaced while the command was started, and would not be "
                "hidden; try again"
            )
        if not pending:
            return
        if time.monotonic() > end:
            raise SandboxError(f"{os.path.relpath(pending[0].path, real)} could not be hidden; try again")
        time.sleep(_PAUSE)


def _hidden(work: str, names: Sequence[str]) -> Iterator[Mask]:
    for name in names:
        written = os.path.join(work, name)
        path = os.path.realpath(written)
        try:
            is_link = os.path.islink(written)
            if not is_link or (path.startswith(f"{work}/") and os.path.lexists(path)):
                yield _mask(path)
        except FileNotFoundError as error:
            raise SandboxError(
                f"{name} was to be hidden and is gone: it may have another name now; try again"
            ) from error


def _doors(folder: str, hidden: frozenset[str]) -> Iterator[Mask]:
    """Yields the pipes and sockets below a folder."""
    folders = [folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:  # it has just been removed, or cannot be read
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders += [entry.path] if entry.path not in hidden else []
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    with suppress(FileNotFoundError):  # it has just been removed
                        yield _mask(entry.path)


def _mask(path: str) -> Mask:
    status = os.lstat(path)
    return Mask(path=path, identity=_identity(status), is_folder=os.path.isdir(path))


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _seen(path: str, pid: int) -> Identity | None:
    """Returns what a process has at a path of the work folder; None: nothing yet."""
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _opened(root, f"{WORK}{path}".lstrip("/"), _NO_LINKS)
    finally:
        os.close(root)


def _on_host(mask: Mask) -> Identity | None:
    return _opened(None, mask.path, NO_LINKS)


def _opened(folder: int | None, path: str, resolve: int) -> Identity | None:
    try:
        descriptor = open_beneath(folder, path, os.O_PATH | os.O_NOFOLLOW, resolve=resolve)
    except OSError:
        return None
    try:
        return _identity(os.fstat(descriptor))
    finally:
        os.close(descriptor)
