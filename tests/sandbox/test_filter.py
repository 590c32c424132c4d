"""The filter of system calls, as the programs that the kernel gets."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.sandbox.filter import MACHINES, program

ALLOWED, KILLED, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026, 0x00050061
ENOLCK = 0x00050025


def answer(machine: str, number: int, *arguments: int, architecture: int | None = None, **options: bool) -> int:
    """What the kernel does about a call: it runs the program on the call's number and arguments."""
    padded: Sequence[int] = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", number, architecture or MACHINES[machine], 0, *padded)
    lines = list(struct.iter_unpack("=HBBI", program(machine, **options)))
    at, value = 0, 0
    constant: int
    while True:
        code, if_true, if_false, constant = lines[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif code == 0x54:
            value &= constant
        elif code == 0x06:
            return constant
        else:
            holds = {
                0x15: value == constant,
                0x25: value > constant,
                0x35: value >= constant,
                0x45: bool(value & constant),
            }
            at += if_true if holds[code] else if_false


@pytest.mark.parametrize(("machine", "read", "ptrace", "socket"), [("x86_64", 0, 101, 41), ("aarch64", 63, 117, 198)])
def test_ordinary_calls_pass_and_dangerous_ones_do_not(machine: str, read: int, ptrace: int, socket: int) -> None:
    assert answer(machine, read) == ALLOWED
    assert answer(machine, ptrace) == EPERM
    assert answer(machine, 425) == ENOSYS
    assert answer(machine, 463) == ENOSYS  # newer than the table
    assert answer(machine, socket, 2, 1, 6) == ALLOWED
    assert answer(machine, socket, 2, 1 | 0o2000000, 0) == ALLOWED
    assert answer(machine, socket, 1, 5, 0) == ALLOWED
    assert answer(machine, socket, 2, 3, 1) == EPERM  # raw
    assert answer(machine, socket, 2, 2, 1) == EPERM  # ICMP
    assert answer(machine, socket, 2, 1, 132) == EPERM  # SCTP
    assert {answer(machine, socket, family, 3, 0) for family in range(50)} <= {EPERM, EAFNOSUPPORT}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_other_architectures_end_the_program(machine: str) -> None:
    assert answer(machine, 1, architecture=0x40000003) == KILLED
    assert answer("x86_64", 0x40000000 + 1) == KILLED


def test_files_are_made_without_the_bits_that_set_their_user() -> None:
    create, temporary = 0o100 | 1, 0o20200000 | 1
    assert answer("x86_64", 257, 0, 0, create, 0o644) == ALLOWED
    assert answer("x86_64", 257, 0, 0, create, 0o4755) == EPERM
    assert answer("x86_64", 257, 0, 0, temporary, 0o2755) == EPERM
    assert answer("x86_64", 257, 0, 0, 0, 0o4755) == ALLOWED  # the mode means nothing: no file is made
    assert answer("x86_64", 90, 0, 0o755) == ALLOWED
    assert answer("x86_64", 90, 0, 0o6755) == EPERM
    assert answer("x86_64", 259, 0, 0, 0o010644) == ALLOWED  # a pipe
    assert {answer("x86_64", 259, 0, 0, kind | 0o644) for kind in (0o020000, 0o060000)} == {EPERM}


def test_threads_and_processes_are_made_without_namespaces() -> None:
    assert answer("x86_64", 56, 0x3D0F00) == ALLOWED
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer("x86_64", 56, flag | 17) == EPERM
    assert answer("x86_64", 435) == ENOSYS


def test_bubblewrap_may_build_the_wall_and_nothing_more() -> None:
    for number in (165, 155, 272, 56, 435):  # mount, pivot_root, unshare, clone, clone3
        assert answer("x86_64", number, 0x10000000, setup=True) == ALLOWED
    for number in (101, 321, 298, 250, 246, 310):  # ptrace, bpf, perf_event_open, keyctl, kexec_load, process_vm_readv
        assert answer("x86_64", number, setup=True) == EPERM


def test_a_command_that_only_reads_locks_nothing_and_has_no_unix_sockets_with_paths() -> None:
    read_lock, write = 6, 1
    for number, arguments in ((73, (3, 2)), (72, (3, read_lock)), (72, (3, 7)), (72, (3, 37)), (72, (3, 38))):
        assert answer("x86_64", number, *arguments) == ALLOWED
        assert answer("x86_64", number, *arguments, only_reads=True) == ENOLCK
    assert answer("x86_64", 72, 3, write, only_reads=True) == ALLOWED
    assert answer("x86_64", 41, 1, 1, 0, only_reads=True) == EAFNOSUPPORT
    assert answer("x86_64", 41, 2, 1, 0, only_reads=True) == ALLOWED
    assert answer("x86_64", 53, 1, 1, 0, only_reads=True) == ALLOWED
    assert answer("x86_64", 53, 1, 2, 0, only_reads=True) == EPERM  # a datagram goes to any path


def test_no_command_makes_programs_of_the_host_wait_for_a_lease() -> None:
    assert answer("x86_64", 72, 3, 1024, 0) == EPERM
    assert answer("aarch64", 25, 3, 1024, 0) == EPERM


def test_a_machine_without_a_filter_is_an_error() -> None:
    with pytest.raises(ConfigError, match="riscv64"):
        program("riscv64")
