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
UNCOUNTABLE = 1 << 40
"""What a folder counts that is nested deeper than `_DEPTH`, because looking into it takes an open descriptor for each level, and
one that this process cannot read."""
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")


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
    except PermissionError:
        return total + UNCOUNTABLE
    except OSError:  # the folder itself is gone
        return total
    return total


def removed_below(pid: int, folder: str, largest: int) -> int:
    """Returns the bytes of files on the disk of a folder that a process and its descendants have open or in their memory although
    they have been removed. `largest`: what a file counts whose size only root may look at."""
    try:
        device = os.stat(folder).st_dev
    except OSError:  # the folder itself is gone
        return 0
    sizes: dict[int, int] = {}
    for each in _tree(pid):
        sizes.update(_removed(each, device, largest))
    for each in _tree(pid):
        sizes.update(_opened(each, device))
    return sum(sizes.values())


def _opened(pid: int, device: int) -> Iterator[tuple[int, int]]:
    """Yields the inodes and sizes of removed files that a process has open."""
    for number in _names(f"/proc/{pid}/fd"):
        try:
            status = os.stat(f"/proc/{pid}/fd/{number}")
        except OSError:  # it has just been closed
            continue
        if status.st_dev == device and status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
            yield status.st_ino, status.st_blocks * _BLOCK


def _removed(pid: int, device: int, largest: int) -> Iterator[tuple[int, int]]:
    """Yields the inodes and sizes of removed files that a process has in its memory."""
    for line in _content(f"/proc/{pid}/maps").splitlines():
        if not line.endswith(b" (deleted)"):
            continue
        place, _, _, numbers, inode = line.split()[:5]
        start, end = (int(each, 16) for each in place.split(b"-"))
        major, minor = (int(each, 16) for each in numbers.split(b":"))
        try:
            status = os.stat(f"/proc/{pid}/map_files/{start:x}-{end:x}")
        except PermissionError:
            if os.makedev(major, minor) == device:
                yield int(inode), largest
        except OSError:  # it is no longer there
            continue
        else:
            if status.st_dev == device and status.st_nlink == 0:
                yield status.st_ino, status.st_blocks * _BLOCK


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
            except PermissionError:
                yield UNCOUNTABLE
            except OSError:  # it has just been removed
                continue
    if folders and depth == _DEPTH:
        yield UNCOUNTABLE * len(folders)
        return
    for name in folders:
        try:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        except PermissionError:
            yield UNCOUNTABLE
            continue
        except OSError:  # it has just been removed
            continue
        with ExitStack() as inner:
            yield from _sizes_in(below, inner, depth + 1)
