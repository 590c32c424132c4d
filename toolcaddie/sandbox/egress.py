"""The proxy through which a command with `egress` reaches hosts over http and https.

The network of the command stays apart from all others. The proxy's socket listens in the command's network, but its program is
the server, which opens each connection itself: to hosts of the list, on the usual ports, at public addresses only.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import checked_url, why_not_public
from toolcaddie.util.log import Logger

log = Logger(__name__)

_PORTS = frozenset({80, 443})
_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_CONNECTIONS = 32
"""The largest number of connections of a command at the same time; further ones wait."""
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
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=_HEAD_BYTES)

    def close(self) -> None:
        """Ends all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._slots:
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one end has gone, or the command does not speak http
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads the head of one request, connects, and passes everything on until one end closes."""
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
        try:
            (back if request.head else writer).write(request.head or b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both_ways((reader, writer), (there, back), request.body_bytes)
        finally:
            back.close()

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
        try:
            line, *headers = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
            method, target, version = line.split(" ")
            tunnel = method == "CONNECT"
            parts = urlsplit(f"//{target}" if tunnel else target)
            host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if tunnel else 80)
            sizes = [int(each.partition(":")[2]) for each in headers if each.lower().startswith("content-length:")]
        except ValueError as error:
            raise OutboundError(f"this is not a request to a proxy: {error}") from error
        if tunnel:
            return cls(host=host, port=port, head=b"", body_bytes=None)
        if (
            parts.scheme != "http"
            or len(sizes) > 1
            or any(each.lower().startswith("transfer-encoding") for each in headers)
        ):
            raise OutboundError("the proxy passes requests for http:// on that say how long their body is; use https")
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        own = [each for each in headers if not each.lower().startswith(_OURS)]
        lines = [
            f"{method} {path} {version}",
            f"Host: {parts.netloc.rpartition('@')[2]}",
            *own,
            "Connection: close",
            "",
            "",
        ]
        return cls(host=host, port=port, head="\r\n".join(lines).encode("latin-1"), body_bytes=sum(sizes))


_OURS = ("proxy-", "connection:", "keep-alive:", "upgrade:", "host:")
"""Beginnings of headers that are the proxy's own."""


async def public_connection(host: str, port: int) -> Connection:
    """Opens a connection to a public address of a host. Raises `OutboundError`."""
    loop = asyncio.get_running_loop()
    try:
        infos = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), _CONNECT_SECONDS)
    except OSError as error:
        raise OutboundError(f"{host} cannot be looked up: {error}") from error
    reason = "it has no address"
    for family, kind, protocol, _, address in infos:
        closed = why_not_public(address[0])
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


async def _both_ways(ours: Connection, theirs: Connection, body_bytes: int | None) -> None:
    """Passes bytes on in both directions; of a request that is no tunnel, its body and the answer."""
    answer = asyncio.create_task(_passed_on(theirs[0], ours[1], None))
    request = asyncio.create_task(_passed_on(ours[0], theirs[1], body_bytes))
    try:
        await asyncio.gather(answer, request)
    finally:
        answer.cancel()
        request.cancel()


async def _passed_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, most: int | None) -> None:
    left = most
    while left != 0 and (piece := await source.read(_PIECE if left is None else min(_PIECE, left))):
        left = None if left is None else left - len(piece)
        target.write(piece)
        await target.drain()
    if most is None:
        target.write_eof()


def _refusal(reason: str) -> bytes:
    text = f"{reason}\n".encode()
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    return head.encode() + text
