"""Reads the bodies of small requests, for doors that are ASGI applications beside the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any


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
