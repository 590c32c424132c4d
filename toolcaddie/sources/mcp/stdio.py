"""The stdio transport of the MCP client: a server program, and messages as lines on its pipes. The length of a line is limited,
and the whole tree of processes ends with the connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from toolcaddie.core.bounds import beyond
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.processes import filtered_environment
from toolcaddie.guards.services import Service, start
from toolcaddie.parts import Secrets
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line

log = Logger(__name__)

Streams = tuple[MemoryObjectReceiveStream[Any], MemoryObjectSendStream[Any]]

LAST_WORDS = "; it wrote: "
"""Separates the reason why a server has ended from what it wrote to stderr."""
_PATIENCE = 2.0
"""Seconds for a server to end by itself after its stdin has closed."""
_SHOWN = 300


@asynccontextmanager
async def stdio(
    server: McpServer, secrets: Secrets, line_limit: int, lost: Callable[[str], None]
) -> AsyncIterator[Streams]:
    """Starts the server and yields the streams of its messages. `lost` is called with the reason if the server ends by itself.
    Raises `OutboundError` if it cannot be started, and `ConfigError` for a variable that is not set."""
    assert server.command is not None
    service = await _started(server, environment_of(server, secrets), line_limit)
    # Unlimited buffers would let a server that floods us fill the memory; with none, its pipe fills up and it waits.
    incoming_writer, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, outgoing_reader = anyio.create_memory_object_stream[Any](0)
    reading = asyncio.create_task(_read(service, server, incoming_writer, line_limit, lost))
    writing = asyncio.create_task(_write(service, outgoing_reader))
    try:
        yield incoming, outgoing
    finally:
        for task in (reading, writing):
            task.cancel()
        try:
            await service.stop(_PATIENCE)
        finally:
            await asyncio.gather(reading, writing, return_exceptions=True)
            for stream in (incoming, incoming_writer, outgoing, outgoing_reader):
                stream.close()


def environment_of(server: McpServer, secrets: Secrets) -> Mapping[str, str]:
    """Returns the whole environment of the server's program: a few harmless variables of this process, and those of the
    settings."""
    named = {
        name: secrets.require(variable, what=f"the value of {name} for the MCP server {server.name!r}")
        for name, variable in server.env_from.items()
    }
    return {**filtered_environment(), **server.env, **named}


async def _started(server: McpServer, env: Mapping[str, str], line_limit: int) -> Service:
    try:
        return await start([str(server.command), *server.args], env=env, cwd=server.cwd, line_limit=line_limit)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutboundError(f"the command {server.command!r} cannot be started: {reason}") from error


async def _read(
    service: Service,
    server: McpServer,
    incoming: MemoryObjectSendStream[Any],
    line_limit: int,
    lost: Callable[[str], None],
) -> None:
    """Reads messages until the server closes its output. Lines that are no messages are skipped."""
    reason = "it has ended"
    try:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := await service.stdout.readline():
                if (message := _message(line, server)) is not None:
                    await incoming.send(message)
    except ValueError:  # a line longer than the limit
        reason = beyond("it sent a message that is too long", line_limit, "answer")
    except OSError as error:
        reason = f"its output broke off: {error}"
    words = visible_line(service.last_words[-_SHOWN:])
    lost(f"{reason}{LAST_WORDS}{words}" if words else reason)
    incoming.close()


def _message(line: bytes, server: McpServer) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        log.debug("mcp_line_skipped", source=server.name, line=visible_line(line[:_SHOWN].decode(errors="replace")))
        return None


async def _write(service: Service, outgoing: MemoryObjectReceiveStream[Any]) -> None:
    with contextlib.suppress(OSError, anyio.EndOfStream, anyio.ClosedResourceError):
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            service.stdin.write(f"{text}\n".encode())
            await service.stdin.drain()
