"""A transport that joins the pieces of an answer which are written at nearly the same moment.

uvicorn writes the headers of an answer, each piece of its body and its end separately. Each write is a system call that wakes the
client, and takes more time than everything else that a proxy does with a short answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

_MOST = 64 * 1024
"""Number of bytes from which on they are written at once, so that the transport can slow down the sender of a long answer."""


class JoinedWrites:
    """A transport around another one. It keeps what is written until the event loop has no other work that is due, and then
    writes it at once. Everything else is done by the other transport."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []
        self._size = 0
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= _MOST:
            self._flush()

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._flush()
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        pieces = self._pieces
        if not pieces:
            return
        self._pieces, self._size = [], 0
        if not self._transport.is_closing():
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
