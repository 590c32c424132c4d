"""The filter of system calls, as a program for the kernel's seccomp (classic BPF).

    program(os.uname().machine)  # -> bytes for `bwrap --seccomp`

It refuses what a sandboxed command has no use for and attackers have: doors into the kernel (io_uring, bpf, perf), the memory of
other processes, mounts and namespaces, device files, setuid files, and sockets other than UNIX, TCP and UDP. A call that is newer
than this table does not exist for the command. Another architecture's calls (32-bit programs) end the program.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.errors import ConfigError

MACHINES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machines that have a filter, and the kernel's number of their architecture."""

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _GREATER, _GREATER_EQUAL, _ANY_BIT = 0x15, 0x25, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_NEWEST = 462
"""The newest call that this table knows (mseal, Linux 6.10)."""

_NAMESPACES = 0x7E020000
"""The flags of `clone` that make a namespace."""
_SETS_ID = 0o6000
_FILE_KIND, _CHARACTERS, _BLOCKS = 0o170000, 0o020000, 0o060000
_O_CREATES = 0o100 | 0o20000000
"""Flags of `open` that make a file: O_CREAT, and O_TMPFILE without O_DIRECTORY, which machines number differently."""

_CALLS = """
    mount 165 40            umount2 166 39         pivot_root 155 41      chroot 161 51
    swapon 167 224          swapoff 168 225        reboot 169 142         acct 163 89
    sethostname 170 161     setdomainname 171 162  iopl 172 -             ioperm 173 -
    settimeofday 164 170    clock_settime 227 112  adjtimex 159 171       clock_adjtime 305 266
    init_module 175 105     delete_module 176 106  finit_module 313 273   create_module 174 -
    kexec_load 246 104      kexec_file_load 320 294                       syslog 103 116
    ptrace 101 117          process_vm_readv 310 270                      process_vm_writev 311 271
    kcmp 312 272            process_madvise 440 440                       process_mrelease 448 448
    pidfd_getfd 438 438     move_pages 279 239     migrate_pages 256 238  modify_ldt 154 -
    bpf 321 280             perf_event_open 298 241                       userfaultfd 323 282
    add_key 248 217         request_key 249 218    keyctl 250 219
    unshare 272 97          setns 308 268          open_tree 428 428      move_mount 429 429
    fsopen 430 430          fsconfig 431 431       fsmount 432 432        fspick 433 433
    mount_setattr 442 442   statmount 457 457      listmount 458 458
    quotactl 179 60         quotactl_fd 443 443    name_to_handle_at 303 264
    open_by_handle_at 304 265                      fanotify_init 300 262  fanotify_mark 301 263
    lookup_dcookie 212 18   vhangup 153 58         nfsservctl 180 42      uselib 134 -
    _sysctl 156 -           sysfs 139 -            ustat 136 -            shmget 29 194
    msgget 68 186           memfd_secret 447 447
"""
"""Calls that are refused with EPERM, and their numbers on x86_64 and on aarch64."""

_ABSENT = """
    io_uring_setup 425 425  io_uring_enter 426 426 io_uring_register 427 427
    clone3 435 435          openat2 437 437        memfd_create 319 279
"""
"""Calls that do not exist for the command, so that programs use older ones. The filter cannot look into the structures that
`clone3` and `openat2` take; files in memory belong to no process and so escape the count of its memory."""

_JUDGED = """
    clone 56 220     socket 41 198    socketpair 53 199  ioctl 16 29        personality 135 92
    mknod 133 -      mknodat 259 33   chmod 90 -         fchmod 91 52       fchmodat 268 53
    fchmodat2 452 452                 open 2 -           openat 257 56      creat 85 -
    mkdir 83 -       mkdirat 258 34   fcntl 72 25
"""
"""Calls that are judged by their arguments."""

_LOCKS = "flock 73 32"
"""Calls that a command that only reads cannot use: a lock of its own would hold up the programs that write."""
_LEASE, _LOCKING = 1024, (6, 7, 37, 38)
"""Orders of `fcntl`: F_SETLEASE, and F_SETLK, F_SETLKW, F_OFD_SETLK and F_OFD_SETLKW."""

_NEEDED_FOR_SETUP = {"mount", "umount2", "pivot_root", "chroot", "sethostname", "setdomainname", "unshare", "setns"}
"""Calls with which bubblewrap builds the wall."""


@dataclass(frozen=True, slots=True)
class _Test:
    """A comparison of an argument, after masking it: the call is refused if it holds."""

    argument: int
    operation: int
    value: int
    mask: int = 0xFFFFFFFF


def program(machine: str, *, setup: bool = False, only_reads: bool = False) -> bytes:
    """Returns the filter for a machine, as `os.uname` names it. Raises `ConfigError` if there is none.

    `setup`: the wider filter for bubblewrap itself, which must be able to mount and to make namespaces. `only_reads`: the
    narrower one for a command that only reads, and so must not lock files or speak to other programs over unix sockets.
    """
    if machine not in MACHINES:
        raise ConfigError(
            f"the wall has no filter of system calls for {machine}, only for {' and '.join(MACHINES)}; "
            'set type = "plain" in [sandbox] to run commands without protection'
        )
    refused, absent = _numbers(_CALLS, machine), _numbers(_ABSENT, machine)
    spared = _NEEDED_FOR_SETUP if setup else set()
    lines = [*_preamble(machine)]
    for name, number in refused.items():
        if name not in spared:
            lines += _when(number, [_return(_ERRNO | errno.EPERM)])
    for name, number in absent.items():
        if not (setup and name in ("clone3", "openat2")):
            lines += _when(number, [_return(_ERRNO | errno.ENOSYS)])
    if not setup:
        lines += _judgements(_numbers(_JUDGED, machine), only_reads=only_reads)
    for number in _numbers(_LOCKS, machine).values() if only_reads else ():
        lines += _when(number, [_return(_ERRNO | errno.ENOLCK)])
    return b"".join([*lines, _return(_ALLOW)])


def _numbers(table: str, machine: str) -> dict[str, int]:
    """Returns the calls of a table that exist on a machine."""
    words = table.split()
    column = 1 + list(MACHINES).index(machine)
    rows = zip(words[0::3], words[column::3], strict=True)
    return {name: int(number) for name, number in rows if number != "-"}


def _preamble(machine: str) -> Iterable[bytes]:
    """Refuses other architectures and calls that are too new, and loads the number of the call."""
    yield _load(_ARCHITECTURE)
    yield _jump(_EQUAL, MACHINES[machine], 1, 0)
    yield _return(_KILL)
    yield _load(_NUMBER)
    if machine == "x86_64":
        yield from _when(_X32, [_return(_KILL)], operation=_GREATER_EQUAL)
    yield from _when(_NEWEST, [_return(_ERRNO | errno.ENOSYS)], operation=_GREATER)


def _judgements(calls: Mapping[str, int], *, only_reads: bool) -> Iterable[bytes]:
    """Refuses calls by their arguments."""
    for name, tests in _TESTS.items():
        if name in calls:
            yield from _when(calls[name], [*_refused_if(tests), _return(_ALLOW)])
    yield from _when(calls["socket"], _sockets((2, 10) if only_reads else (1, 2, 10)))
    # A pair of datagram sockets sends to others too, by their paths.
    yield from _when(calls["socketpair"], _sockets((1,), kinds=(1, 5) if only_reads else (1, 2, 5)))
    yield from _when(calls["fcntl"], _orders(_LOCKING if only_reads else ()))
    for name, flags, mode in (("open", 1, 2), ("openat", 2, 3)):
        if name in calls:
            yield from _when(calls[name], _created(flags, mode))
    yield from _when(
        calls["personality"],
        [_load_argument(0), _jump(_EQUAL, 0, 2, 0), _jump(_EQUAL, 0xFFFFFFFF, 1, 0), _refusal(), _return(_ALLOW)],
    )


_TESTS: Mapping[str, Sequence[_Test]] = {
    "clone": [_Test(0, _ANY_BIT, _NAMESPACES)],
    "ioctl": [_Test(1, _EQUAL, 0x5412), _Test(1, _EQUAL, 0x541C)],  # TIOCSTI and TIOCLINUX type into a terminal
    "mknod": [
        _Test(1, _EQUAL, _CHARACTERS, _FILE_KIND),
        _Test(1, _EQUAL, _BLOCKS, _FILE_KIND),
        _Test(1, _ANY_BIT, _SETS_ID),
    ],
    "mknodat": [
        _Test(2, _EQUAL, _CHARACTERS, _FILE_KIND),
        _Test(2, _EQUAL, _BLOCKS, _FILE_KIND),
        _Test(2, _ANY_BIT, _SETS_ID),
    ],
    "chmod": [_Test(1, _ANY_BIT, _SETS_ID)],
    "fchmod": [_Test(1, _ANY_BIT, _SETS_ID)],
    "fchmodat": [_Test(2, _ANY_BIT, _SETS_ID)],
    "fchmodat2": [_Test(2, _ANY_BIT, _SETS_ID)],
    "creat": [_Test(1, _ANY_BIT, _SETS_ID)],
    "mkdir": [_Test(1, _ANY_BIT, _SETS_ID)],
    "mkdirat": [_Test(2, _ANY_BIT, _SETS_ID)],
}
"""What is refused by one argument. A file that sets its user or group would keep doing so outside of the wall."""


def _refused_if(tests: Iterable[_Test]) -> Iterable[bytes]:
    for test in tests:
        yield _load_argument(test.argument)
        if test.mask != 0xFFFFFFFF:
            yield _line(_AND, 0, 0, test.mask)
        yield _jump(test.operation, test.value, 0, 1)
        yield _refusal()


def _sockets(families: Sequence[int], kinds: Sequence[int] = (1, 2, 5)) -> list[bytes]:
    """Allows these families, and of them streams (1), datagrams (2) and sequenced packets (5) of their usual protocols."""
    lines = [_load_argument(0), *_any_of(families, _return(_ERRNO | errno.EAFNOSUPPORT))]
    lines += [_load_argument(1), _line(_AND, 0, 0, 0xF), *_any_of(kinds, _refusal())]
    return [*lines, _load_argument(2), *_any_of((0, 6, 17), _refusal()), _return(_ALLOW)]


def _orders(locking: Sequence[int]) -> list[bytes]:
    """Refuses a lease, with which a program of the host that opens the file waits, and locks as if the file system had none."""
    lines = [_load_argument(1), _jump(_EQUAL, _LEASE, 0, 1), _refusal()]
    for order in locking:
        lines += [_jump(_EQUAL, order, 0, 1), _return(_ERRNO | errno.ENOLCK)]
    return [*lines, _return(_ALLOW)]


def _any_of(values: Sequence[int], refusal: bytes) -> list[bytes]:
    """Goes on behind these lines if the loaded value is one of these, and else returns the refusal."""
    return [*(_jump(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)), refusal]


def _created(flags: int, mode: int) -> list[bytes]:
    """Refuses to make a file that sets its user or group. Without the flags that make a file, the mode means nothing."""
    tests = list(_refused_if([_Test(mode, _ANY_BIT, _SETS_ID)]))
    return [_load_argument(flags), _jump(_ANY_BIT, _O_CREATES, 0, len(tests)), *tests, _return(_ALLOW)]


def _when(number: int, lines: Sequence[bytes], *, operation: int = _EQUAL) -> list[bytes]:
    """Runs lines, which end with a return, for the call of a number."""
    return [_jump(operation, number, 0, len(lines)), *lines]


def _refusal() -> bytes:
    return _return(_ERRNO | errno.EPERM)


def _load(offset: int) -> bytes:
    return _line(_LOAD, 0, 0, offset)


def _load_argument(index: int) -> bytes:
    """Loads the lower half of an argument: the kernel reads all these arguments as 32 bits wide."""
    return _load(_ARGUMENTS + 8 * index)


def _jump(operation: int, value: int, if_true: int, if_false: int) -> bytes:
    return _line(operation, if_true, if_false, value)


def _return(value: int) -> bytes:
    return _line(_RETURN, 0, 0, value)


def _line(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
