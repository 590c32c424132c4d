"""Empty network namespaces for tests that change the network: none ever touches the links and filters of this machine."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_CLONE_NEWNET = 0x40000000
_PATIENCE = 2.5
"""Seconds for a connection. The kernel sends its first packet again after one."""
_LIBC = ctypes.CDLL(None, use_errno=True)

LINUX_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="a network namespace is made by root on Linux only",
)
NFT = pytest.mark.skipif(shutil.which("nft") is None, reason="nft is not installed (nftables)")


def namespace() -> str:
    """Returns the network namespace of this thread."""
    return os.readlink("/proc/thread-self/ns/net")


@contextmanager
def isolated() -> Iterator[None]:
    """Moves this thread, and the processes that it starts, into a new network namespace with the loopback link up."""
    outside = namespace()
    with open("/proc/thread-self/ns/net") as way_back:
        if _LIBC.unshare(_CLONE_NEWNET) != 0:
            pytest.skip(f"no network namespace can be made here: {os.strerror(ctypes.get_errno())}")
        try:
            assert namespace() != outside
            ip("link", "set", "lo", "up")
            yield
        finally:
            assert _LIBC.setns(way_back.fileno(), _CLONE_NEWNET) == 0
            assert namespace() == outside


def ip(*arguments: str) -> str:
    """Runs the program `ip` in this namespace."""
    return _output(["ip", *arguments])


def nft(*arguments: str) -> str:
    """Runs the program `nft` in this namespace."""
    return _output(["nft", *arguments])


def _output(command: list[str]) -> str:
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


class Neighbour:
    """Another namespace at the other end of a veth pair, in which a process answers on TCP ports and counts UDP packets."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def counted(self, port: int) -> int:
        """Returns the UDP packets that have arrived at a port."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{port}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def reaches(self, port: int) -> bool:
        """Returns whether a connection from there to this port of 10.77.0.1 succeeds."""
        script = f"import socket; socket.create_connection(('10.77.0.1', {port}), {_PATIENCE})"
        return self._run([sys.executable, "-c", script]).returncode == 0

    def command(self, *command: str) -> None:
        """Runs a command there."""
        completed = self._run(command)
        assert completed.returncode == 0, completed.stderr

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        entered = ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", *command]
        return subprocess.run(entered, capture_output=True, text=True, check=False, timeout=20)


def connection(address: str, port: int) -> str:
    """Returns what becomes of a TCP connection from here: `open`, `refused`, `silent` or `forbidden`."""
    try:
        socket.create_connection((address, port), _PATIENCE).close()
    except TimeoutError:
        return "silent"
    except ConnectionRefusedError:
        return "refused"
    except PermissionError:  # this is how the kernel tells a process that its own packet was dropped
        return "forbidden"
    return "open"


@contextmanager
def neighbour(*, tcp: tuple[int, ...] = (), udp: tuple[int, ...] = ()) -> Iterator[Neighbour]:
    """Starts a neighbour at 10.77.0.2, with 10.77.0.3 as its second address; the link `near` of this namespace is 10.77.0.1."""
    script = Path(__file__).with_name("neighbour_process.py")
    ports = [",".join(map(str, each)) for each in (tcp, udp)]
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    with subprocess.Popen(["unshare", "-n", sys.executable, str(script), *ports], **options) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "namespace\n"
            ip("link", "set", "far", "netns", str(process.pid))
            ip("addr", "add", "10.77.0.1/24", "dev", "near")
            ip("link", "set", "near", "up")
            other = Neighbour(process)
            assert process.stdin is not None
            process.stdin.write("link\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"
            yield other
        finally:
            process.kill()
