"""The proxy through which a command with `egress` reaches hosts over http and https.

The network of the command stays apart from all others. The proxy's socket listens in the command's network, but its program is
the server, which opens each connection itself: to hosts of the list, on the usual ports, at public addresses only.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import checked_url, why_not_public
from toolcaddie.util.log import Logger

log = Logger(__name__)

_PORTS = frozenset({80, 443})
_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 60.0
"""A connection over which nothing passes for so long is ended."""
_LAST_SECONDS = 5.0
"""The time in which the last bytes of a connection must be taken."""
_PAUSE_SECONDS = 0.1
"""The pause after a connection that could not be accepted, because the server has too many files open."""
_CONNECTIONS = 32
"""The largest number of connections of a command at the same time. Further ones wait in the kernel, so that they take nothing of
the server."""
_PIECE = 65_536

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, int], Awaitable[Connection]]
"""Opens a connection to a host and port. Raises `OutboundError`."""


class Proxy:
    """Serves the connections that arrive at a socket in the network of a command."""

    def __init__(self, hosts: Sequence[str], dial: Dial) -> None:
        self._dial = dial
        self._hosts = tuple(host.lower().rstrip(".") for host in hosts)
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, listener: socket.socket) -> None:
        """Serves what connects to a listening socket, which it owns from now on."""
        self._begin(self._accept(listener)).add_done_callback(lambda _: listener.close())

    def close(self) -> None:
        """Ends all connections."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        """Accepts connections, each when it has a slot."""
        while True:
            await self._slots.acquire()
            try:
                ours, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                log.info("egress_not_accepted", error=str(error))
                self._slots.release()
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._begin(self._connected(ours)).add_done_callback(partial(self._leave, ours))

    def _leave(self, ours: socket.socket, _: object) -> None:
        ours.close()
        self._slots.release()

    async def _connected(self, ours: socket.socket) -> None:
        # One end has gone, nothing passes, or the command does not speak http.
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            reader, writer = await asyncio.open_connection(sock=ours, limit=_HEAD_BYTES)
            async with _closed(writer):
                await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads the head of one request, connects, and passes on its body and the answer. No second request follows."""
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        try:
            request = _Request.read(head)
            self._check(request.host, request.port)
            there, back = await self._dial(request.host, request.port)
        except OutboundError as error:
            log.info("egress_refused", error=str(error))
            writer.write(_refusal(str(error)))
            await writer.drain()
            return
        async with _closed(back):
            (back if request.head else writer).write(request.head or b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both_ways((reader, writer), (there, back), request.body_bytes)

    def _check(self, host: str, port: int) -> None:
        """Raises `OutboundError` for a host that is not on the list, and for other ports than those of http and https."""
        if not any(_matches(host, pattern) for pattern in self._hosts):
            raise OutboundError(
                f"the host {host!r} is not among those that this command may reach: {', '.join(self._hosts)}"
            )
        if port not in _PORTS:
            raise OutboundError(f"the port {port} is not one of http and https: {', '.join(map(str, sorted(_PORTS)))}")
        checked_url(f"http://{f'[{host}]' if ':' in host else host}/")


def _matches(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The first request of a connection."""

    host: str
    port: int
    head: bytes
    """The head for the server itself; empty: the command wants a tunnel."""
    body_bytes: int | None
    """The size of the body. Nothing after it is passed on, because it could be a request to another host. None: a tunnel."""

    @classmethod
    def read(cls, head: bytes) -> _Request:
        """Raises `OutboundError`."""
        if not (match := _HEAD.fullmatch(head)):
            raise OutboundError(f"this is not a request to a proxy as HTTP/1.1 writes it: {head[:80]!r}")
        method, target, version = (match[part].decode() for part in ("method", "target", "version"))
        headers = [_header(line) for line in match["headers"].split(b"\r\n")[:-1]]
        tunnel = method == "CONNECT"
        try:
            parts = urlsplit(f"//{target}" if tunnel else target)
            host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if tunnel else 80)
        except ValueError as error:
            raise OutboundError(f"this is not the address of a server: {error}") from error
        if tunnel:
            return cls(host=host, port=port, head=b"", body_bytes=None)
        if parts.scheme != "http":
            raise OutboundError("the proxy passes requests for http:// on, and tunnels for https")
        size = _body_bytes(headers)
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        lines = [
            f"{method} {path} {version}",
            f"Host: {parts.netloc.rpartition('@')[2]}",
            *(f"{name}:{value}" for name, value in headers if not name.lower().startswith(_OURS)),
            "Connection: close",
            "",
            "",
        ]
        return cls(host=host, port=port, head="\r\n".join(lines).encode("latin-1"), body_bytes=size)


_HEAD = re.compile(
    rb"(?P<method>[A-Z]{1,20}) (?P<target>[!-~]+) (?P<version>HTTP/1\.[01])\r\n"
    rb"(?P<headers>(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n)*)\r\n"
)
"""The head of a request that all servers read in the same way: one that others would read as two requests has a carriage return
or a line feed alone, a line that goes on in the next one, or a blank in the name of a header."""
_SIZE = re.compile(r"[0-9]{1,15}")
_OURS = ("proxy-", "connection", "keep-alive", "upgrade", "host")
"""Beginnings of the names of headers that are the proxy's own."""


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name, value


def _body_bytes(headers: Sequence[tuple[str, str]]) -> int:
    """Returns the size of a body. Raises `OutboundError` if the headers do not say it in one way."""
    sizes = [value.strip(" \t") for name, value in headers if name.lower() == "content-length"]
    coded = any(name.lower() == "transfer-encoding" for name, _ in headers)
    if coded or len(sizes) > 1 or not all(map(_SIZE.fullmatch, sizes)):
        raise OutboundError(
            "the proxy passes requests on that say how long their body is by one Content-Length and no Transfer-Encoding; "
            "use https"
        )
    return sum(map(int, sizes))


async def public_connection(host: str, port: int) -> Connection:
    """Opens a connection to a public address of a host. Raises `OutboundError`."""
    loop = asyncio.get_running_loop()
    try:
        infos = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), _CONNECT_SECONDS)
    except OSError as error:
        raise OutboundError(f"{host} cannot be looked up: {error}") from error
    reason = "it has no address"
    for family, kind, protocol, _, address in infos:
        closed = why_not_public(str(address[0]))
        if closed is not None:
            reason = f"its address {address[0]} is not public: {closed}"
            continue
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(connection, address), _CONNECT_SECONDS)
            return await asyncio.open_connection(sock=connection)
        except OSError as error:
            connection.close()
            reason = str(error) or "it does not answer"
    raise OutboundError(f"{host} cannot be reached: {reason}")


@asynccontextmanager
async def _closed(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Closes a connection afterwards, also if its other end takes nothing any more."""
    try:
        yield
        writer.close()
        async with asyncio.timeout(_LAST_SECONDS):
            await writer.wait_closed()
    finally:
        writer.transport.abort()


async def _both_ways(ours: Connection, theirs: Connection, body_bytes: int | None) -> None:
    """Passes bytes on in both directions; of a request that is no tunnel, its body and the answer. Raises `TimeoutError`."""
    async with asyncio.timeout(_IDLE_SECONDS) as idle:
        answer = asyncio.create_task(_passed_on(theirs[0], ours[1], None, idle))
        request = asyncio.create_task(_passed_on(ours[0], theirs[1], body_bytes, idle))
        try:
            # The answer ends a request that is no tunnel, even if the server has not read all of the body.
            await (answer if body_bytes is not None else asyncio.gather(answer, request))
        finally:
            answer.cancel()
            request.cancel()
            await asyncio.gather(answer, request, return_exceptions=True)


async def _passed_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, most: int | None, idle: asyncio.Timeout
) -> None:
    left = most
    while left != 0 and (piece := await source.read(_PIECE if left is None else min(_PIECE, left))):
        left = None if left is None else left - len(piece)
        idle.reschedule(asyncio.get_running_loop().time() + _IDLE_SECONDS)
        target.write(piece)
        await target.drain()
    if most is None:
        target.write_eof()


def _refusal(reason: str) -> bytes:
    text = f"{reason}\n".encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    return head.encode() + text
