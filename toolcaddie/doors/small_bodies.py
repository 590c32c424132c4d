"""Reads small requests and responds to them, for doors that are ASGI applications beside the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

_UNREAD = (408, 413)
"""Statuses of requests whose body was not read to its end."""


async def small_body(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], most: int) -> bytes | None:
    """Returns the body, or a little more than `most` bytes of it; None: the client is gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > most:
            return bytes(body)


async def respond(
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    status: int,
    body: bytes = b"",
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Sends a response. If the body of the request was not read, the connection is closed; otherwise the server would read the
    rest, however long it is."""
    closing = [(b"connection", b"close")] if status in _UNREAD else []
    lines = [*headers, (b"content-length", b"%d" % len(body)), *closing]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
