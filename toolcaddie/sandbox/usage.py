"""What a command uses while it runs, as its host sees it: memory of its processes, and disk below a folder.

The functions read the file system, so they belong into a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

_ENTRY_BYTES = 512
"""What a name in a folder counts, so that a flood of empty files is noticed too."""
_BLOCK = 512
_COUNTED = (b"RssAnon:", b"RssShmem:")


def memory_below(pid: int) -> int:
    """Returns the bytes of memory that a process and its descendants have filled, without what they read from files.

    Pages that a process shares with its child after a fork count for both.
    """
    return sum(map(_memory, _tree(pid)))


def disk_below(folder: str) -> int:
    """Returns the bytes that the files below a folder occupy. Symbolic links are not followed."""
    try:
        return sum(_sizes(folder))
    except OSError:  # the folder itself is gone
        return 0


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
    """Yields the size of each entry. Folders are opened by descriptors, so that none is exchanged for a link meanwhile."""
    for _, folders, files, descriptor in os.fwalk(folder, onerror=None, follow_symlinks=False):
        for name in (*folders, *files):
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # it has just been removed
                continue
            counted = stat.S_ISREG(status.st_mode) and status.st_nlink > 0
            yield _ENTRY_BYTES + (status.st_blocks * _BLOCK if counted else 0)
