"""A network with a delay: a port that passes everything on to another one of this machine, later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PIECE = 65_536


@asynccontextmanager
async def delayed(port: int, seconds: float) -> AsyncIterator[int]:
    """Yields a port behind which is `port`, with a delay of so many seconds in each direction."""
    connections: list[asyncio.Task[object]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.append(task)
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, onward_writer, seconds), _pass_on(onward_reader, writer, seconds))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*connections)  # each ends once one of its sides has


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await reader.read(_PIECE):
            loop.call_later(seconds, writer.write, data)
    except ConnectionError:
        pass
    loop.call_later(seconds, writer.close)
