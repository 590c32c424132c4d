"""The ends of a command's pipes in this process: the outputs, which are read to their end, and the input."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

from toolcaddie.core.errors import SandboxError

_CHUNK = 65_536
"""The largest number of bytes read at once."""
_LAST_PIECES = 64
"""The largest number of pieces read of a pipe that is closed although somebody may still write to it."""


class Output:
    """Reads a pipe to its end, because a full pipe would block the writer, but stores only the first `limit` bytes.

    `size` counts all bytes; `closed` is done when the pipe is closed. It owns the descriptor.
    """

    def __init__(self, descriptor: int, limit: int, report: Callable[[bytes], None] | None = None) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self.size = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._more)

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    def close(self) -> None:
        """Reads what has arrived and closes the pipe."""
        for _ in range(_LAST_PIECES):
            if self.closed.done() or not self._more():
                break
        self._close()

    def _close(self) -> None:
        if not self.closed.done():
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self.closed.set_result(None)

    def _more(self) -> bool:
        """Reads one piece; closes the pipe at its end. Returns False if nothing was there."""
        try:
            piece = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not piece:
            self._close()
            return False
        self._data += piece[: max(0, self._limit - len(self._data))]
        self.size += len(piece)
        if self._report is not None:
            self._report(piece)
        return True


class Input:
    """Writes to the standard input of a command. It owns the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()
        self._room = asyncio.Event()
        self._open = True
        os.set_blocking(descriptor, False)

    async def write(self, data: bytes) -> None:
        """Returns when all of it is in the pipe. Raises `SandboxError` if the command reads none any more."""
        rest = memoryview(data)
        async with self._lock:
            while rest:
                rest = rest[await self._some(rest) :]

    async def _some(self, data: memoryview) -> int:
        """Returns how many bytes the pipe took; 0: it is full, and may have room now."""
        if not self._open:
            raise SandboxError("the command has ended and reads no input any more")
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            await self._wait_for_room()
            return 0
        except BrokenPipeError as error:
            raise SandboxError("the command has closed its standard input") from error

    async def _wait_for_room(self) -> None:
        """Returns when the pipe has room or is closed."""
        self._room.clear()
        asyncio.get_running_loop().add_writer(self._descriptor, self._room.set)
        try:
            await self._room.wait()
        finally:
            if self._open:
                asyncio.get_running_loop().remove_writer(self._descriptor)

    def close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._room.set()


def sealed(data: bytes, name: str = "input") -> int:
    """Returns the descriptor of a file in memory with these bytes, which nobody can change. A command that never reads it blocks
    nothing, unlike a pipe."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor


_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
