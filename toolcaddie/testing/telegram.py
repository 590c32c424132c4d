"""A local server that speaks Telegram's Bot API and refuses what Telegram would refuse.

    async with ScriptedTelegram() as server:
        channel = telegram(url=server.url, parts=Parts(secrets=Secrets({"TELEGRAM_BOT_TOKEN": server.token})))
        server.write("Hello", person=1)
        await server.answers(1)

`write` and `press` are what people do. `sent` has the messages of the bot, in order; `calls` has every accepted call.
`faults[method]` is a list of faults for the next calls of a method: `Fault(...)`, or None for a call that succeeds.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

BOT_ID, BOT_NAME = 7_000_000_001, "toolcaddie_test_bot"

_LONGEST_TEXT, _LONGEST_DATA, _MOST_FILE = 4_096, 64, 20 * 1024 * 1024
_KINDS = frozenset({"message", "edited_message", "channel_post", "callback_query", "my_chat_member"})
_ACTIONS = frozenset({"typing", "upload_photo", "record_voice", "upload_document"})
_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "getMe": (frozenset(), frozenset()),
    "getUpdates": (frozenset(), frozenset({"offset", "limit", "timeout", "allowed_updates"})),
    "setWebhook": (
        frozenset({"url"}),
        frozenset({"secret_token", "allowed_updates", "max_connections", "drop_pending_updates"}),
    ),
    "deleteWebhook": (frozenset(), frozenset({"drop_pending_updates"})),
    "sendMessage": (
        frozenset({"chat_id", "text"}),
        frozenset({"reply_parameters", "message_thread_id", "reply_markup", "link_preview_options", "parse_mode"}),
    ),
    "sendChatAction": (frozenset({"chat_id", "action"}), frozenset({"message_thread_id"})),
    "answerCallbackQuery": (frozenset({"callback_query_id"}), frozenset({"text", "show_alert"})),
    "getFile": (frozenset({"file_id"}), frozenset()),
}
"""The methods, each with its required and its optional fields."""


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


class ScriptedTelegram:
    """The server."""

    def __init__(self, *, token: str = f"{BOT_ID}:TEST-token") -> None:
        self.token = token
        self.sent: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refusals: list[str] = []
        self.faults: defaultdict[str, list[Fault | None]] = defaultdict(list)
        self.files: dict[str, bytes] = {}
        self.webhook: dict[str, Any] = {}
        self.blocked: set[int] = set()
        """Chats in which the bot may not write."""
        self._updates: list[dict[str, Any]] = []
        self._number = 100
        self._changed = asyncio.Condition()
        self._polls: list[asyncio.Event] = []
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> ScriptedTelegram:
        app = web.Application(client_max_size=_MOST_FILE)
        app.router.add_route("*", "/file/bot{token}/{path:.+}", self._file)
        app.router.add_route("*", "/bot{token}/{method}", self._method)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # --- what people do

    def write(
        self,
        text: str,
        *,
        person: int,
        chat: int | None = None,
        name: str = "Ann",
        entities: list[dict[str, Any]] | None = None,
        reply_to_bot: bool = False,
        photo: bytes | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Adds the update of a message. `chat`: a group, whose id is below 0; None: the person's own chat with the bot."""
        message = self._message(person, chat, name) | more
        if entities is not None:
            message["entities"] = entities
        if photo is not None:
            self.files[file_id := f"photo-{len(self.files)}"] = photo
            sizes = {"file_unique_id": file_id, "width": 90, "height": 90, "file_size": len(photo)}
            message |= {"photo": [{"file_id": file_id, **sizes}], "caption": text}
        elif text:
            message["text"] = text
        if reply_to_bot:
            message["reply_to_message"] = self._message(BOT_ID, chat, "Bot") | {"from": _BOT}
        return self.add({"message": message})

    def press(self, label: str, *, person: int, name: str = "Ann") -> dict[str, Any]:
        """Adds the update of a press on the last button with this label."""
        for message in reversed(self.sent):
            for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
                for button in row:
                    if button["text"] == label:
                        chat = int(message["chat_id"])
                        query = {
                            "id": f"query-{self._number}",
                            "from": _user(person, name),
                            "message": self._message(BOT_ID, chat if chat < 0 else None, "Bot")
                            | {"chat": _chat_of(chat), "text": message["text"]},
                            "chat_instance": "1",
                            "data": button["callback_data"],
                        }
                        return self.add({"callback_query": query})
        raise AssertionError(f"no message has a button {label!r}")

    def add(self, update: dict[str, Any]) -> dict[str, Any]:
        """Adds an update; without an `update_id` it gets the next one."""
        self._number += 1
        update = {"update_id": self._number, **update}
        self._updates.append(update)
        self._wake()
        return update

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
        if method not in _FIELDS:
            return self._refused(404, "Not Found")
        if request.content_type != "application/json":
            return self._refused(400, "Bad Request: the body must be JSON")
        parameters: dict[str, Any] = await request.json()
        fault = self.faults[method].pop(0) if self.faults[method] else None
        if fault is not None and not fault.after:
            return await self._failed(request, fault)
        if complaint := self._complaint(method, parameters):
            return self._refused(403 if complaint.startswith("Forbidden") else 400, complaint)
        self.calls.append((method, parameters))
        answer = None if method == "getUpdates" else self._done(method, parameters)
        async with self._changed:
            self._changed.notify_all()
        answer = answer or await self._polled(parameters)
        return answer if fault is None else await self._failed(request, fault)

    def _done(self, method: str, parameters: dict[str, Any]) -> web.Response:
        match method:
            case "getMe":
                return _result(_BOT)
            case "sendMessage":
                self.sent.append(parameters)
                return _result({"message_id": len(self.sent), "date": 0, "chat": _chat_of(int(parameters["chat_id"]))})
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

    async def _file(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token or request.method != "GET":
            return self._refused(401, "Unauthorized")
        data = self.files.get(request.match_info["path"].removeprefix("photos/"))
        return self._refused(404, "Not Found") if data is None else web.Response(body=data)

    def _complaint(self, method: str, parameters: dict[str, Any]) -> str:
        """Returns what Telegram would say about a call. Empty: it does it."""
        required, optional = _FIELDS[method]
        if missing := sorted(required - parameters.keys()):
            return f"Bad Request: {missing[0]} is missing"
        if unknown := sorted(parameters.keys() - required - optional):
            return f"Bad Request: unknown parameter {unknown[0]}"
        if any(kind not in _KINDS for kind in parameters.get("allowed_updates", ())):
            return "Bad Request: can't parse allowed_updates"
        match method:
            case "getUpdates" if not 1 <= parameters.get("limit", 100) <= 100:
                return "Bad Request: limit is out of range"
            case "sendMessage":
                return self._message_complaint(parameters)
            case "sendChatAction" if parameters["action"] not in _ACTIONS:
                return "Bad Request: wrong parameter action in request"
            case "getFile" if parameters["file_id"] not in self.files:
                return "Bad Request: invalid file_id"
            case "setWebhook" if not 1 <= len(parameters.get("secret_token", "-")) <= 256:
                return "Bad Request: secret token is too long"
        return ""

    def _message_complaint(self, parameters: dict[str, Any]) -> str:
        text = parameters["text"]
        if not isinstance(parameters["chat_id"], int):
            return "Bad Request: chat not found"
        if parameters["chat_id"] in self.blocked:
            return "Forbidden: bot was blocked by the user"
        if not isinstance(text, str) or not text.strip():
            return "Bad Request: message text is empty"
        if len(text.encode("utf-16-le")) // 2 > _LONGEST_TEXT:
            return "Bad Request: message is too long"
        for row in parameters.get("reply_markup", {}).get("inline_keyboard", ()):
            if any(not 1 <= len(button["callback_data"].encode()) <= _LONGEST_DATA for button in row):
                return "Bad Request: BUTTON_DATA_INVALID"
        return ""

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

    def _message(self, person: int, chat: int | None, name: str) -> dict[str, Any]:
        self._number += 1
        chat_fields = _chat_of(person if chat is None else chat)
        return {"message_id": self._number, "from": _user(person, name), "chat": chat_fields, "date": 1_700_000_000}


_BOT = {"id": BOT_ID, "is_bot": True, "first_name": "Test", "username": BOT_NAME}


def _user(person: int, name: str) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": name}


def _chat_of(chat: int) -> dict[str, Any]:
    return {"id": chat, "type": "supergroup", "title": "Group"} if chat < 0 else {"id": chat, "type": "private"}


def _result(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})
