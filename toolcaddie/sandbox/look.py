"""A program that tries to get out of the sandbox in which it runs, and prints what it reached, as JSON. `facts` runs it.

    python3 look.py FILE PORT

FILE is a file of the host that the program must not be able to read; on PORT a server of the host listens, which it must not be
able to reach. It imports nothing of Toolcaddie.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Mapping

_CLONE_NEWUSER = 0x10000000
_CALLS = {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "pidfd_getfd": 438}
"""Calls that have the same number on all machines."""


def _status() -> Mapping[str, str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        pairs = (line.partition(":") for line in file)
        return {name: value.strip() for name, _, value in pairs}


def _opens(path: str, mode: int) -> bool:
    try:
        os.close(os.open(path, mode))
    except OSError:
        return False
    return True


def _reaches(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def _calls_that_work() -> list[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    works = [name for name, number in _CALLS.items() if libc.syscall(ctypes.c_long(number), 1, 0, 0, 0) >= 0]
    return [*works, *(["unshare"] if libc.unshare(_CLONE_NEWUSER) == 0 else [])]


def main() -> None:
    status = _status()
    seen = {
        "uid": os.getuid(),
        "capabilities": max(int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")),
        "no_new_privileges": status["NoNewPrivs"] == "1",
        "filtered": status["Seccomp"] == "2",
        "processes": sum(name.isdecimal() for name in os.listdir("/proc")),
        "reads_host_file": _opens(sys.argv[1], os.O_RDONLY),
        "reaches_host": _reaches(int(sys.argv[2])),
        "writes_kernel_settings": _opens("/proc/sys/kernel/core_pattern", os.O_WRONLY),
        "writes_process_1": _opens("/proc/1/mem", os.O_RDWR),
        "calls": _calls_that_work(),
        "descriptors": [number for number in os.listdir("/proc/self/fd") if int(number) > 3],
    }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
