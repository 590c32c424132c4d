"""The server: methods, long polling, webhooks and faults."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from toolcaddie.testing.telegram.people import BOT, BOT_ID, People, chat_of
from toolcaddie.testing.telegram.rules import METHODS, complaint

_MOST_FILE = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one call. `cut`: the connection is closed without a response. `stall`: seconds without one. `after`:
    the call has its effect nevertheless."""

    status: int = 500
    description: str = "Internal Server Error"
    retry_after: int | None = None
    migrate_to: int | None = None
    cut: bool = False
    stall: float = 0.0
    after: bool = False


class ScriptedTelegram(People):
    """The server.

    `write`, `edit` and `press` are what people do. `sent` has the messages of the bot, in order; `calls` has every accepted call.
    `faults[method]` is a list of faults for the next calls of a method: `Fault(...)`, or None for a call that succeeds.
    """

    def __init__(self, *, token: str = f"{BOT_ID}:TEST-token") -> None:
        super().__init__()
        self.token = token
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refusals: list[str] = []
        self.faults: defaultdict[str, list[Fault | None]] = defaultdict(list)
        self.webhook: dict[str, Any] = {}
        self.blocked: set[int] = set()
        """Chats in which the bot may not write."""
        self._changed = asyncio.Condition()
        self._polls: list[asyncio.Event] = []
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> ScriptedTelegram:
        app = web.Application(client_max_size=_MOST_FILE)
        app.router.add_route("*", "/file/bot{token}/{path:.+}", self._download)
        app.router.add_route("*", "/bot{token}/{method}", self._method)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # --- what tests wait for

    async def answers(self, count: int, *, seconds: float = 20.0) -> list[dict[str, Any]]:
        """Returns the messages of the bot as soon as there are `count`."""
        await self.until(lambda: len(self.sent) >= count, seconds=seconds)
        return self.sent

    async def until(self, condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
        """Waits until a condition holds, which is checked after each call."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def deliver(self, update: Any, *, secret: str | None = None) -> int:
        """Posts an update, or any bytes, to the webhook as Telegram does. Returns the status. `secret`: another one."""
        headers = {"content-type": "application/json"}
        token = self.webhook.get("secret_token") if secret is None else secret
        if token:
            headers["X-Telegram-Bot-Api-Secret-Token"] = token
        body: dict[str, Any] = {"data": update} if isinstance(update, bytes) else {"json": update}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.webhook["url"], headers=headers, **body) as response,
        ):
            return response.status

    # --- the API

    async def _method(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        if request.match_info["token"] != self.token:
            return self._refused(401, "Unauthorized")
        if method not in METHODS:
            return self._refused(404, "Not Found")
        if request.content_type != "application/json":
            return self._refused(400, "Bad Request: the body must be JSON")
        parameters: dict[str, Any] = await request.json()
        fault = self.faults[method].pop(0) if self.faults[method] else None
        if fault is not None and not fault.after:
            return await self._failed(request, fault)
        if problem := complaint(method, parameters, files=self.files, blocked=self.blocked):
            return self._refused(403 if problem.startswith("Forbidden") else 400, problem)
        self.calls.append((method, parameters))
        answer = None if method == "getUpdates" else self._done(method, parameters)
        async with self._changed:
            self._changed.notify_all()
        answer = answer or await self._polled(parameters)
        return answer if fault is None else await self._failed(request, fault)

    def _done(self, method: str, parameters: dict[str, Any]) -> web.Response:
        match method:
            case "getMe":
                return _result(dict(BOT))
            case "sendMessage":
                self.sent.append(parameters)
                return _result({"message_id": len(self.sent), "date": 0, "chat": chat_of(int(parameters["chat_id"]))})
            case "setWebhook":
                self.webhook = parameters
            case "deleteWebhook":
                self.webhook = {}
            case "getFile":
                file_id = parameters["file_id"]
                size = len(self.files[file_id])
                return _result(
                    {"file_id": file_id, "file_unique_id": file_id, "file_size": size, "file_path": f"photos/{file_id}"}
                )
        return _result(True)

    async def _polled(self, parameters: dict[str, Any]) -> web.Response:
        if self.webhook:
            return self._refused(409, "Conflict: can't use getUpdates method while webhook is active")
        for other in self._polls:
            other.set()
        ended = asyncio.Event()
        self._polls = [ended]
        offset, limit = parameters.get("offset", 0), parameters.get("limit", 100)
        self._updates = [each for each in self._updates if each["update_id"] >= offset]
        if not self._updates and parameters.get("timeout"):
            try:
                async with asyncio.timeout(parameters["timeout"]):
                    await ended.wait()
            except TimeoutError:
                return _result([])
            if self._polls != [ended]:
                return self._refused(409, "Conflict: terminated by other getUpdates request")
        kinds = parameters.get("allowed_updates") or ["message"]
        return _result([each for each in self._updates if any(kind in each for kind in kinds)][:limit])

    def _wake(self) -> None:
        for poll in self._polls:
            poll.set()

    async def _download(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token or request.method != "GET":
            return self._refused(401, "Unauthorized")
        data = self.files.get(request.match_info["path"].removeprefix("photos/"))
        return self._refused(404, "Not Found") if data is None else web.Response(body=data)

    async def _failed(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.stall:
            await asyncio.sleep(fault.stall)
        if fault.cut:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        parameters = {"retry_after": fault.retry_after, "migrate_to_chat_id": fault.migrate_to}
        return self._refused(fault.status, fault.description, {k: v for k, v in parameters.items() if v is not None})

    def _refused(self, status: int, text: str, parameters: Mapping[str, Any] | None = None) -> web.Response:
        self.refusals.append(text)
        body = {"ok": False, "error_code": status, "description": text}
        return web.json_response(body | ({"parameters": parameters} if parameters else {}), status=status)


def _result(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})
