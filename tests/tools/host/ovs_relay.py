"""Servers in the place of ovsdb-server and of a switch: one that passes everything on, and one that sends what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from pathlib import Path


@asynccontextmanager
async def relay(path: Path, server: Path, before: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Listens at `path` and passes everything on to and from the socket `server`. `before` is called before a request is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_unix_connection(server)
        copying = [
            asyncio.create_task(_copy(reader, downstream, before)),
            asyncio.create_task(_copy(upstream, writer, lambda _: None)),
        ]
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
        for each in copying:
            each.cancel()
        for end in (writer, downstream):
            end.transport.abort()

    async with await asyncio.start_unix_server(serve, path):
        yield


@asynccontextmanager
async def speaker(path: Path, *answers: bytes) -> AsyncIterator[None]:
    """Listens at `path`, and answers each piece that it receives with the next of these bytes; afterwards it closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            for answer in answers:
                await reader.read(65_536)
                writer.write(answer)
                await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield


MOST_FLOOD = 64 * 1024 * 1024
"""The most bytes that a flood sends."""


@asynccontextmanager
async def flood(path: Path, *pieces: bytes) -> AsyncIterator[asyncio.Future[int]]:
    """Listens at `path`, sends the pieces, the last of them again and again, and reads nothing but what comes first. Yields the
    number of bytes that were sent until the connection ended, or all were."""
    sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        size = 0
        with suppress(OSError):
            for piece in chain(pieces, repeat(pieces[-1])):
                writer.write(piece)
                await writer.drain()
                size += len(piece)
                if size >= MOST_FLOOD:
                    break
        sent.set_result(size)
        writer.transport.abort()

    async with await asyncio.start_unix_server(serve, path):
        yield sent


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, before: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            before(chunk)
            writer.write(chunk)
            await writer.drain()
