"""A program that talks to the channel `webhook`: it signs its messages by Standard Webhooks and checks the replies.

async with ScriptedProgram() as program:
    status = await program.post(webhook, {"id": "m1", "chat": "1", "person": "ann", "text": "Hello"})
    replies = await program.replies(1)
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web


class ScriptedProgram:
    """The program. `received` has the replies by their `webhook-id`, and `accepted` counts all that came. `refusal`: the text of
    the response to the last message, if it was refused. `faults`: statuses for the next replies. `on_reply` is called with each
    reply."""

    def __init__(
        self,
        *,
        secret: bytes = b"a secret of the test, long enough",
        on_reply: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.secret = f"whsec_{base64.b64encode(secret).decode()}"
        self.faults: list[int] = []
        self.wrong: list[str] = []
        self.accepted = 0
        self.refusal = ""
        self._on_reply = on_reply
        self.received: dict[str, dict[str, Any]] = {}
        self._key = secret
        self._changed = asyncio.Condition()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/replies"

    async def __aenter__(self) -> ScriptedProgram:
        app = web.Application()
        app.router.add_post("/replies", self._reply)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def post(self, webhook: str, message: Any, *, at: float | None = None, signature: str | None = None) -> int:
        """Posts a message, or any bytes. Returns the status. `at`: the time of the signature; `signature`: another one."""
        assert self._session is not None
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        stamp = str(int(time.time() if at is None else at))
        webhook_id = f"msg_{hashlib.sha256(body).hexdigest()[:16]}"
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": stamp,
            "webhook-signature": self._signature(webhook_id, stamp, body) if signature is None else signature,
        }
        async with self._session.post(webhook, data=body, headers=headers) as response:
            self.refusal = "" if response.ok else await response.text()
            return response.status

    async def replies(self, count: int, *, seconds: float = 20.0) -> list[dict[str, Any]]:
        """Returns the replies as soon as there are `count`."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.received) >= count)
        return list(self.received.values())

    async def _reply(self, request: web.Request) -> web.Response:
        body = await request.read()
        webhook_id, stamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
        if request.headers["webhook-signature"] != self._signature(webhook_id, stamp, body):
            self.wrong.append(webhook_id)
            return web.Response(status=401)
        if self.faults:
            return web.Response(status=self.faults.pop(0))
        async with self._changed:
            self.accepted += 1
            self.received[webhook_id] = reply = json.loads(body)
            if self._on_reply is not None:
                self._on_reply(reply)
            self._changed.notify_all()
        return web.Response(status=204)

    def _signature(self, webhook_id: str, stamp: str, body: bytes) -> str:
        signed = b".".join((webhook_id.encode(), stamp.encode(), body))
        return f"v1,{base64.b64encode(hmac.new(self._key, signed, hashlib.sha256).digest()).decode()}"
