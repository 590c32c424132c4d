"""Pieces of an answer that are written at nearly the same moment reach the client together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcaddie.doors.gateway.joined import JoinedWrites

pytestmark = pytest.mark.anyio


class Written(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.pieces.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def test_headers_and_body_are_written_at_once_and_later_pieces_later() -> None:
    transport = Written()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"headers ")
    joined.write(b"body")
    await asyncio.sleep(0)
    joined.write(b"more")
    await asyncio.sleep(0)
    assert transport.pieces == [b"headers body", b"more"]


async def test_what_was_written_before_a_close_is_still_sent() -> None:
    transport = Written()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"last words")
    joined.close()
    assert (transport.pieces, transport.closed) == ([b"last words"], True)


async def test_a_large_piece_does_not_wait() -> None:
    transport = Written()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"x" * 100_000)
    assert transport.pieces == [b"x" * 100_000]


async def test_nothing_is_sent_over_a_connection_that_is_lost() -> None:
    transport = Written()
    joined = JoinedWrites(transport, asyncio.get_running_loop())
    joined.write(b"too late")
    transport.closed = True
    await asyncio.sleep(0)
    assert transport.pieces == []
