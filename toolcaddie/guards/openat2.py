"""The system calls `openat2` and `renameat2` of Linux, for which Python has no functions.

`openat2` (Linux 5.6) opens a path that never leaves a folder: the kernel itself checks every step, also while other processes
exchange folders for links.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache
from typing import Literal

NO_MOUNTS = 0x01
"""No step may enter another mount (`RESOLVE_NO_XDEV`)."""
NO_MAGIC_LINKS = 0x02
"""No step may be a link of the kernel, such as `/proc/self/fd/3`."""
NO_LINKS = 0x04
"""No step may be a symbolic link."""
BENEATH = 0x08
"""No step may leave the folder."""

_OPENAT2 = 437
"""The same number on every machine of `_RENAMEAT2`."""
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}
_HOW = {"new": 1, "exchange": 2}
_AT_FDCWD = -100
_TRIES = 64
"""The kernel asks to try again if a folder was moved while it looked at a path with `..`."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def open_beneath(folder: int | None, path: str, flags: int, *, resolve: int) -> int:
    """Opens a path and returns its file descriptor, which programs that are started do not inherit. None: `path` is absolute.

    Raises `OSError`: `EXDEV` if a step is one that `resolve` forbids, or `ELOOP` if that step is a link.
    """
    encoded = os.fsencode(path)
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    start = _AT_FDCWD if folder is None else folder
    for _ in range(_TRIES):
        result: int = _libc().syscall(
            _OPENAT2,
            ctypes.c_int(start),
            ctypes.c_char_p(encoded),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if result >= 0:
            return result
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def rename(folder: int, old: str, new: str, *, how: Literal["exchange", "new"]) -> None:
    """Renames a file within a folder. `exchange`: the two names are exchanged; `new`: no file may have the new name.

    Raises `OSError`; `EINVAL` if the file system cannot do it.
    """
    result = _libc().syscall(
        _RENAMEAT2[platform.machine()],
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(old)),
        ctypes.c_int(folder),
        ctypes.c_char_p(os.fsencode(new)),
        ctypes.c_uint(_HOW[how]),
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old)


def problem() -> str:
    """Returns why this machine cannot open files beneath a folder; empty if it can."""
    if sys.platform != "linux":
        return f"it needs Linux, and this is {platform.system()}"
    if platform.machine() not in _RENAMEAT2:
        return f"the numbers of its system calls are not known for {platform.machine()}"
    try:
        descriptor = open_beneath(None, "/proc/self/fd", os.O_PATH | os.O_DIRECTORY, resolve=0)
        os.readlink(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
    except FileNotFoundError:
        return "/proc is not mounted"
    except OSError as error:
        why = "the kernel is older than 5.6" if error.errno == errno.ENOSYS else "a filter of system calls forbids it"
        return f"the system call openat2 fails ({error.strerror}): {why}"
    return ""
