"""The connection to the warden, the program that starts commands (`warden.py`). It is started when it is needed, and again if it
has died."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from toolcaddie.core.errors import SandboxError
from toolcaddie.sandbox import warden
from toolcaddie.sandbox.filter import program
from toolcaddie.sandbox.pipes import sealed
from toolcaddie.sandbox.view import PROXY_PORT

_PAUSE = 0.002
"""Seconds between two attempts to send to a warden that has much to do."""
_BUSY = frozenset({errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS})
_BUSY_SECONDS = 10.0
_ATTEMPTS = 2
_LISTENER_SECONDS = 5.0


class Channel:
    """Sends messages to the warden."""

    def __init__(self) -> None:
        machine = os.uname().machine
        self._filters = program(machine, setup=True), program(machine), program(machine, only_reads=True)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    async def send(self, message: str, descriptors: Sequence[int] = ()) -> None:
        """Raises `SandboxError` if the warden cannot be started."""
        for _ in range(_ATTEMPTS):
            try:
                return await self._send(message, descriptors)
            except (BrokenPipeError, ConnectionResetError):
                self.close()
        raise SandboxError("the program that starts commands ends at once; run: toolcaddie sandbox check")

    def send_now(self, message: str) -> None:
        """Sends a message if the warden lives and has time for it."""
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it has died, and with it what it started
                    self._socket.send(message.encode())

    def close(self) -> None:
        """Ends the warden and all that it has started. The next message starts another one."""
        with self._lock:
            process, self._process = self._process, None
            connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.wait()

    async def _send(self, message: str, descriptors: Sequence[int]) -> None:
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                socket.send_fds(self._connected(), [message.encode()], descriptors)
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
                if time.monotonic() > end:
                    raise SandboxError(
                        f"the program that starts commands takes none now ({error}); try again"
                    ) from error
                await asyncio.sleep(_PAUSE)
            else:
                return

    def _connected(self) -> socket.socket:
        with self._lock:
            if self._socket is None:
                self._socket, self._process = self._started()
            return self._socket

    def _started(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        filters = [sealed(each) for each in self._filters]
        passed = [theirs.fileno(), *filters]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, *map(str, passed)],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=passed,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"the program that starts commands cannot be started: {error}") from error
        finally:
            theirs.close()
            for each in filters:
                os.close(each)
        ours.setblocking(False)
        return ours, process


class Line:
    """The part of the channel that belongs to one command."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel = channel
        self._name = name

    def order(self, verb: str) -> None:
        """Sends an order for the command, such as `kill`."""
        self._channel.send_now(f"{verb} {self._name}")

    async def listener(self, pid: int) -> socket.socket:
        """Returns a socket that listens in the network of a process. Raises `OSError`, `SandboxError`."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, arrived.set)
        try:
            with theirs:
                await self._channel.send(f"listen {pid} {PROXY_PORT}", [theirs.fileno()])
            await asyncio.wait_for(arrived.wait(), _LISTENER_SECONDS)
            descriptors = socket.recv_fds(ours, 1, 1)[1]
        finally:
            loop.remove_reader(ours)
            ours.close()
        if not descriptors:
            raise SandboxError("the network of the command cannot be entered")
        listener = socket.socket(fileno=descriptors[0])
        listener.setblocking(False)
        return listener
