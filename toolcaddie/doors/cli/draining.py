"""The time between SIGTERM and the end of a server behind a load balancer: it still takes requests, and turns clients away."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import msgspec

from toolcaddie.doors.gateway.router import App, Receive, Scope, Send

_READY_PATH = "/readyz"
_NOT_READY = msgspec.json.encode({"status": "not ready", "reason": "the server is about to stop"})
_CLOSE = (b"connection", b"close")


class Draining:
    """Turns clients away once `begin` was called: `/readyz` answers 503, and each connection is closed after its answer, so that
    the next request of its client goes to another server."""

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        self.has_begun = True

    async def answer(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request that came after `begin`."""
        if scope.get("path") == _READY_PATH:
            headers = [(b"content-type", b"application/json"), (b"retry-after", b"1"), _CLOSE]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": _NOT_READY})
            return

        async def send_closing(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], _CLOSE]}
            await send(message)

        await app(scope, receive, send_closing)
