"""Runs programs that try to leave the interpreter, one after another, and prints what each left behind:
python -m security.escapes FILE < LINES

FILE is a canary: a file whose content no program may learn. The process moves into a network of its own, in which every packet is
counted. `security.programs` starts it.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import psutil

from toolcaddie.core.programs import Ended, Program, ProgramLimits, ProgramResult, Waiting
from toolcaddie.programs.named import monty

CANARY = "SECURITY_CANARY"
"""Environment variable whose value no program may learn."""
_NEW_USERS, _NEW_NETWORK = 0x1000_0000, 0x4000_0000
_SET_FLAGS, _ADD_ROUTE = 0x8914, 0x890B
"""Numbers of ioctl on Linux: the flags of a network device, a further route."""
_UP, _ROUTE_UP = 1, 1
_LIMITS = ProgramLimits(seconds=0.2, memory_bytes=16_000_000, output_bytes=1_000_000)
_MOST_CALLS = 20
"""Number of calls after which a program is left; each call fails."""
_COUNTERS = ("Ip:OutRequests", "Icmp:OutMsgs", "Tcp:ActiveOpens", "Udp:OutDatagrams")


class _Route(ctypes.Structure):
    """`struct rtentry` of Linux."""

    _fields_ = (
        ("pad1", ctypes.c_ulong),
        ("destination", ctypes.c_ubyte * 16),
        ("gateway", ctypes.c_ubyte * 16),
        ("mask", ctypes.c_ubyte * 16),
        ("flags", ctypes.c_ushort),
        ("pad2", ctypes.c_short),
        ("pad3", ctypes.c_ulong),
        ("pad4", ctypes.c_void_p),
        ("metric", ctypes.c_short),
        ("device", ctypes.c_char_p),
        ("mtu", ctypes.c_ulong),
        ("window", ctypes.c_ulong),
        ("irtt", ctypes.c_ushort),
    )


def alone_in_a_network() -> None:
    """Moves this process into a network of its own, in which a packet to any address goes to this machine and is counted. Raises
    `OSError` if the kernel does not permit it, or the first packet is not counted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) != 0 and libc.unshare(_NEW_USERS | _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "this process may not have a network of its own")
    everywhere = (ctypes.c_ubyte * 16)(socket.AF_INET)
    route = _Route(destination=everywhere, gateway=everywhere, mask=everywhere, flags=_ROUTE_UP, device=b"lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        fcntl.ioctl(probe, _ADD_ROUTE, route)
        before = packets()
        probe.sendto(b"counted?", ("203.0.113.1", 9))
    if packets() == before:
        raise OSError("packets are not counted here")


def packets() -> int:
    """Returns the number of packets and connections that began in this network."""
    rows = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines()]
    values = {
        f"{names[0]}{name}": int(value)
        for names, numbers in zip(rows[::2], rows[1::2], strict=True)
        for name, value in zip(names[1:], numbers[1:], strict=True)
    }
    return sum(values[name] for name in _COUNTERS)


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns size and time of the last change of each file."""
    return {str(path): ((stat := path.lstat()).st_size, stat.st_mtime_ns) for path in sorted(folder.rglob("*"))}


def processes() -> set[str]:
    """Returns the names of all processes that this one or its workers started, apart from the workers."""
    return {child.name() for child in psutil.Process().children(recursive=True)} - {"monty"}


async def ended(code: str) -> Ended:
    """Runs a program to its end; all its calls fail."""
    program, calls = Program(code=code, stubs="", now=0.0, seed=1, limits=_LIMITS), 0
    async with INTERPRETER.session(program) as session:
        step = await session.start()
        while isinstance(step, Waiting) and calls < _MOST_CALLS:
            calls += len(step.calls)
            step = await session.go_on({call.number: ProgramResult(error="no such tool") for call in step.calls})
    return step if isinstance(step, Ended) else Ended()


INTERPRETER = monty(workers=2)


async def main(canary: Path, secrets: tuple[str, ...], programs: Sequence[str]) -> None:
    """Prints one JSON list for each program: the traces that it left."""
    await ended("1")
    before, sent = files_below(canary.parent), packets()
    for code in programs:
        end = await ended(code)
        traces = list(_traces(end, secrets, files_below(canary.parent) != before, packets() - sent))
        print(msgspec.json.encode(traces).decode(), flush=True)
    await INTERPRETER.close()


def _traces(end: Ended, secrets: tuple[str, ...], wrote: bool, sent: int) -> Iterator[str]:
    try:
        shown = f"{end.output}{end.error}{end.value!r}"
    except (ValueError, RecursionError):  # a number of too many digits, a list of lists without end: no canary
        shown = f"{end.output}{end.error}"
    if any(secret in shown for secret in secrets):
        yield "a canary was read"
    if wrote:
        yield "a file was changed"
    if sent:
        yield "a packet was sent"
    if started := processes():
        yield f"a process was started: {', '.join(started)}"


if __name__ == "__main__":
    alone_in_a_network()
    file = Path(sys.argv[1])
    lines = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    asyncio.run(main(file, (os.environ[CANARY], file.read_text()), lines))
