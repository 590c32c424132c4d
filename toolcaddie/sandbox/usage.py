"""What a command uses while it runs, as its host sees it: memory of its processes, and disk below a folder.

The functions read the file system, so they belong into a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack

_ENTRY_BYTES = 1024
"""What a name in a folder counts, so that a flood of empty files is noticed too."""
_BLOCK = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH = 50
_DEEP_BYTES = 1 << 40
"""What a folder counts that is nested deeper than `_DEPTH`: looking into it takes an open descriptor for each level."""
_COUNTED = (b"RssAnon:", b"RssShmem:")


def memory_below(pid: int) -> int:
    """Returns the bytes of memory that a process and its descendants have filled, without what they read from files.

    Pages that a process shares with its child after a fork count for both.
    """
    return sum(map(_memory, _tree(pid)))


def disk_below(folder: str, most: int | None = None) -> int:
    """Returns the bytes that the files below a folder occupy. Symbolic links are not followed.

    `most`: it stops as soon as it has counted more, because a flood of files grows faster than it can be counted.
    """
    total = 0
    try:
        for size in _sizes(folder):
            total += size
            if most is not None and total > most:
                break
    except OSError:  # the folder itself is gone
        return total
    return total


def removed_below(pid: int, folder: str) -> int:
    """Returns the bytes of files on the disk of a folder that a process and its descendants have open although they have been
    removed."""
    try:
        device = os.stat(folder).st_dev
    except OSError:  # the folder itself is gone
        return 0
    sizes = {status.st_ino: status.st_blocks * _BLOCK for each in _tree(pid) for status in _removed(each, device)}
    return sum(sizes.values())


def _removed(pid: int, device: int) -> Iterator[os.stat_result]:
    for number in _names(f"/proc/{pid}/fd"):
        try:
            status = os.stat(f"/proc/{pid}/fd/{number}")
        except OSError:  # it has just been closed
            continue
        if status.st_dev == device and status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
            yield status


def _tree(pid: int) -> Iterator[int]:
    """Yields a process and its living descendants."""
    pending = [pid]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(_children(each))


def _children(pid: int) -> Iterator[int]:
    for thread in _names(f"/proc/{pid}/task"):
        yield from map(int, _content(f"/proc/{pid}/task/{thread}/children").split())


def _memory(pid: int) -> int:
    lines = _content(f"/proc/{pid}/status").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the process has ended
        return []


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # the process has ended
        return b""


def _sizes(folder: str) -> Iterator[int]:
    """Yields the size of each entry. Each folder is opened below the one that contains it, so that none is exchanged for a link
    meanwhile."""
    with ExitStack() as opened:
        yield from _sizes_in(os.open(folder, _FOLDER), opened, 0)


def _sizes_in(descriptor: int, opened: ExitStack, depth: int) -> Iterator[int]:
    opened.callback(os.close, descriptor)
    with os.scandir(descriptor) as entries:
        folders = []
        for entry in entries:
            try:
                yield _ENTRY_BYTES + entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
            except OSError:  # it has just been removed
                continue
    if folders and depth == _DEPTH:
        yield _DEEP_BYTES * len(folders)
        return
    for name in folders:
        try:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError:  # it has just been removed, or cannot be read
            continue
        with ExitStack() as inner:
            yield from _sizes_in(below, inner, depth + 1)
