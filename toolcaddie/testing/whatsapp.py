"""A local server that speaks WhatsApp's Cloud API and refuses what it would refuse, and the webhooks that it sends.

async with ScriptedWhatsApp() as server:
    status = await server.post(webhook, server.message("Hello", person="49301234"))
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import web

_LONGEST_TEXT, _LONGEST_BUTTON_TEXT, _LONGEST_TITLE = 4_096, 1_024, 20


class ScriptedWhatsApp:
    """The server. `sent` has the messages of the bot, `read` the ids of the messages marked as read. `faults`: status and code of
    the errors for the next messages."""

    def __init__(self, *, number: str = "106540352242922") -> None:
        self.number = number
        self.token, self.app_secret, self.verify_token = "EAAG-test-token", "app-secret-of-the-test", "verify-me"
        self.sent: list[dict[str, Any]] = []
        self.read: list[str] = []
        self.refusals: list[str] = []
        self.faults: list[tuple[int, int]] = []
        self.media: dict[str, bytes] = {}
        self._count = 0
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v23.0"

    @property
    def secrets(self) -> Mapping[str, str]:
        """The environment of a channel for this server."""
        return {
            "WHATSAPP_TOKEN": self.token,
            "WHATSAPP_APP_SECRET": self.app_secret,
            "WHATSAPP_VERIFY_TOKEN": self.verify_token,
        }

    async def __aenter__(self) -> ScriptedWhatsApp:
        app = web.Application()
        app.router.add_post("/v23.0/{number}/messages", self._messages)
        app.router.add_get("/v23.0/{id}", self._node)
        app.router.add_get("/download/{id}", self._download)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # --- what WhatsApp sends

    def message(
        self,
        text: str = "",
        *,
        person: str,
        name: str = "Ann",
        picture: bytes | None = None,
        document: tuple[str, str, bytes] | None = None,
        press: str = "",
        forwarded: bool = False,
        at: float | None = None,
        **other: Any,
    ) -> dict[str, Any]:
        """Returns the webhook of a message: a text, a picture or a file with a text, or the press of a button with this title.
        `document`: name, type and bytes of the file. `at`: when it was written; None: now. `other`: the fields of a message of
        another type, by the type: `sticker={"id": "1"}`."""
        self._count += 1
        stamp = str(int(time.time() if at is None else at))
        message: dict[str, Any] = {"from": person, "id": f"wamid.{self._count}", "timestamp": stamp}
        if press:
            reply = {"id": self._button(press), "title": press}
            message |= {"type": "interactive", "interactive": {"type": "button_reply", "button_reply": reply}}
        elif picture is not None:
            self.media[media_id := f"media{self._count}"] = picture
            message |= {"type": "image", "image": {"id": media_id, "mime_type": "image/jpeg", "caption": text}}
        elif document is not None:
            filename, mime_type, data = document
            self.media[media_id := f"media{self._count}"] = data
            file = {"id": media_id, "mime_type": mime_type, "filename": filename, "caption": text}
            message |= {"type": "document", "document": file}
        elif other:
            message |= {"type": next(iter(other)), **other}
        else:
            message |= {"type": "text", "text": {"body": text}}
        if forwarded:
            message["context"] = {"forwarded": True}
        contacts = [{"profile": {"name": name}, "wa_id": person}]
        return self.notification(contacts=contacts, messages=[message])

    def notification(self, **value: Any) -> dict[str, Any]:
        metadata = {"display_phone_number": "15550783881", "phone_number_id": self.number}
        change = {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        return {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}

    async def post(self, webhook: str, body: Any, *, secret: str | None = None) -> int:
        """Posts a webhook, signed with the app's secret or another one. Returns the status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        digits = hmac.new((secret or self.app_secret).encode(), data, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "X-Hub-Signature-256": f"sha256={digits}"}
        async with aiohttp.ClientSession() as session, session.post(webhook, data=data, headers=headers) as response:
            return response.status

    async def until(self, condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
        """Waits until a condition holds, which is checked after each call."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def answers(self, count: int) -> list[dict[str, Any]]:
        """Returns the messages of the bot as soon as there are `count`."""
        await self.until(lambda: len(self.sent) >= count)
        return self.sent

    # --- the API

    async def _messages(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return self._refused(401, 190, "Invalid OAuth access token")
        body: dict[str, Any] = await request.json()
        if request.match_info["number"] != self.number or body.get("messaging_product") != "whatsapp":
            return self._refused(400, 100, "Invalid parameter messaging_product")
        if body.get("status") == "read":
            self.read.append(body["message_id"])
            return await self._done({"success": True})
        if self.faults:
            status, code = self.faults.pop(0)
            return self._refused(status, code, "the fault of the test")
        if complaint := _complaint(body):
            return self._refused(400, 100, complaint)
        self.sent.append(body)
        return await self._done({"messaging_product": "whatsapp", "messages": [{"id": f"wamid.out{len(self.sent)}"}]})

    async def _node(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return self._refused(401, 190, "Invalid OAuth access token")
        node = request.match_info["id"]
        if node == self.number:
            return web.json_response({"display_phone_number": "+1 555 078 3881", "verified_name": "Test", "id": node})
        if node not in self.media:
            return self._refused(400, 100, "Unsupported get request")
        link = f"http://127.0.0.1:{self._port}/download/{node}"
        return web.json_response(
            {"url": link, "mime_type": "image/jpeg", "file_size": len(self.media[node]), "id": node}
        )

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        return web.Response(body=self.media[request.match_info["id"]])

    async def _done(self, body: Any) -> web.Response:
        async with self._changed:
            self._changed.notify_all()
        return web.json_response(body)

    def _refused(self, status: int, code: int, text: str) -> web.Response:
        self.refusals.append(text)
        error = {"message": text, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
        return web.json_response({"error": error}, status=status)

    def _button(self, title: str) -> str:
        for message in reversed(self.sent):
            for button in message.get("interactive", {}).get("action", {}).get("buttons", ()):
                if button["reply"]["title"] == title:
                    return str(button["reply"]["id"])
        raise AssertionError(f"no message has a button {title!r}")


def _complaint(body: Mapping[str, Any]) -> str:
    """Returns what WhatsApp would say about a message. Empty: it sends it."""
    if not str(body.get("to", "")).isdecimal():
        return "Invalid parameter: to"
    match body.get("type"):
        case "text":
            text = body["text"]["body"]
            return "" if 0 < len(text) <= _LONGEST_TEXT else "Param text['body'] must be at most 4096 characters long."
        case "interactive":
            interactive = body["interactive"]
            titles = [button["reply"]["title"] for button in interactive["action"]["buttons"]]
            if not 1 <= len(titles) <= 3 or any(not 0 < len(title) <= _LONGEST_TITLE for title in titles):
                return "Invalid buttons"
            return "" if len(interactive["body"]["text"]) <= _LONGEST_BUTTON_TEXT else "Body text is too long"
        case "template":
            parameters = body["template"]["components"][0]["parameters"]
            text = parameters[0]["text"]
            return "Param text cannot have new-line" if "\n" in text or len(text) > 1_024 else ""
    return "Invalid parameter: type"
