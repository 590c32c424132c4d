"""The channel `telegram`: a bot of Telegram, by long polling or by a webhook.

[[channel]]
name = "support"
type = "telegram"
token_env = "TELEGRAM_TOKEN"
allow = ["123456"]
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.content import Image
from toolcaddie.core.errors import ConfigError, ProviderError, ProviderProtocolError
from toolcaddie.doors.channels.base import BaseChannel
from toolcaddie.doors.channels.calls import Calls
from toolcaddie.doors.channels.pictures import MOST_BYTES, image_of
from toolcaddie.doors.channels.telegram.api import GroupMoved, TelegramApi
from toolcaddie.doors.channels.telegram.reading import ALLOWED_UPDATES, Update, User, incoming_of
from toolcaddie.parts import Parts, Variable
from toolcaddie.util.log import Logger

log = Logger(__name__)

URL = "https://api.telegram.org"
TOKEN_VARIABLE = "TELEGRAM_BOT_TOKEN"

_OFFSET, _MOVED, _ORIGIN = "offset", "moved:", "origin:"
_MORE_SECONDS = 10.0
"""Time that a long poll may take beyond what Telegram was asked to wait."""
_MOST_UPDATES = 100
_LONGEST_DATA = 64
"""Bytes of the data of a button."""
_SECRET_HEADER = "x-telegram-bot-api-secret-token"


class Telegram(BaseChannel):
    """Implements `ports.FileChannel`."""

    longest = 4_096
    busy_seconds = 4.0

    def __init__(self, calls: Calls, api: TelegramApi, *, secret: str, webhook_url: str, poll_seconds: int) -> None:
        """`secret`: what Telegram sends with each request to the webhook. `webhook_url`: the public address of this server;
        empty: updates are fetched by long polling. `poll_seconds`: the longest time that a poll waits for a message."""
        super().__init__(calls, accepts=secret)
        self._api = api
        self._secret = secret
        self._webhook_url = webhook_url.rstrip("/")
        self._poll_seconds = poll_seconds
        self._me: User | None = None

    async def listen(self) -> None:
        await self._identity()
        if self._webhook_url:
            # One request at a time, so that messages arrive in the order in which they were written.
            await self._api.call(
                "setWebhook",
                url=f"{self._webhook_url}{self._opened.url_path}",
                secret_token=self._secret,
                allowed_updates=ALLOWED_UPDATES,
                max_connections=1,
            )
            return
        await self._api.call("deleteWebhook")
        offset = int(await self._opened.recall(_OFFSET) or 0)
        while True:
            offset = await self._poll(offset)

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        if not self._webhook_url or not hmac.compare_digest(
            request.headers.get(_SECRET_HEADER, "").encode(), self._secret.encode()
        ):
            return ChannelReply(status=401)
        if request.method != "POST":
            return ChannelReply(status=405)
        try:
            update = _update(msgspec.json.decode(request.body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ChannelReply(status=400)
        if update is not None:  # otherwise Telegram would send it again for a day, and the others behind it
            await self._identity()
            await self._take(update)
        return ChannelReply(status=200)

    async def send(self, message: Outgoing) -> None:
        chat = await self._opened.recall(f"{_MOVED}{message.chat}") or message.chat
        try:
            await self._api.call("sendMessage", chat_id=_number(chat), **_parameters(message))
        except GroupMoved as moved:
            await self._note_move(message.chat, moved.chat)
            await self._api.call("sendMessage", chat_id=_number(moved.chat), **_parameters(message))

    async def show_busy(self, message: Incoming) -> None:
        chat = await self._opened.recall(f"{_MOVED}{message.chat}") or message.chat
        with suppress(GroupMoved):
            await self._api.call("sendChatAction", chat_id=_number(chat), action="typing")

    async def picture(self, reference: str) -> Image:
        return image_of(await self.file(reference, MOST_BYTES))

    async def file(self, reference: str, most: int) -> bytes:
        return await self._api.download(reference, most)

    async def facts(self) -> ChannelFacts:
        me = await self._identity()
        return ChannelFacts(bot=f"@{me.username}", details={"id": me.id, "name": me.first_name})

    async def _identity(self) -> User:
        """Returns the bot itself, whose name messages mention."""
        if self._me is None:
            try:
                self._me = msgspec.convert(await self._api.call("getMe"), User)
            except msgspec.ValidationError as error:
                raise ProviderProtocolError("Telegram's answer to getMe describes no bot") from error
        return self._me

    async def _poll(self, offset: int) -> int:
        """Fetches updates once and takes them. Returns the next offset, which confirms them."""
        found = await self._api.call(
            "getUpdates",
            seconds=self._poll_seconds + _MORE_SECONDS,
            offset=offset,
            timeout=self._poll_seconds,
            limit=_MOST_UPDATES,
            allowed_updates=ALLOWED_UPDATES,
        )
        updates = [update for each in found if (update := _update(each)) is not None]
        of_chats: dict[Any, list[Update]] = defaultdict(list)
        for update in sorted(updates, key=lambda update: update.update_id):
            of_chats[_chat(update)].append(update)
        await asyncio.gather(*(self._take_all(each) for each in of_chats.values()))
        numbers = [number for each in found if isinstance(number := each.get("update_id"), int)]
        following = max([offset, *(number + 1 for number in numbers)])
        if following > offset:
            await self._opened.note(_OFFSET, str(following))
        return following

    async def _take_all(self, updates: Iterable[Update]) -> None:
        for update in updates:
            await self._take(update)

    async def _take(self, update: Update) -> None:
        if update.moved is not None:
            await self._note_move(*update.moved)
            return
        message = incoming_of(update, await self._identity(), most_bytes=MOST_BYTES)
        if message is None:
            return
        if message.group and (origin := await self._opened.recall(f"{_ORIGIN}{message.chat}")):
            message = msgspec.structs.replace(message, chat=origin)
        await self._opened.put(message)
        if message.button:
            with suppress(ProviderError, GroupMoved):  # it only ends the animation of the button
                await self._api.call("answerCallbackQuery", callback_query_id=message.button)

    async def _note_move(self, old: str, new: str) -> None:
        """Notes the new id of a group. For the settings, and for what the bot remembers, the group keeps its old one."""
        origin = await self._opened.recall(f"{_ORIGIN}{old}") or old
        await self._opened.note(f"{_MOVED}{origin}", new)
        await self._opened.note(f"{_ORIGIN}{new}", origin)
        log.warning("telegram_group_moved", old=origin, new=new)


def telegram(
    *,
    token_env: Variable = TOKEN_VARIABLE,
    url: str = URL,
    webhook_url: str = "",
    poll_seconds: int = 30,
    parts: Parts,
) -> Telegram:
    """Returns the channel. `webhook_url`: the public address of this server, such as `https://bots.example.com`; empty: messages
    are fetched. Raises `ConfigError` if the token is not set, or a setting is wrong."""
    token = parts.secrets.require(token_env, what="the token of the bot, which BotFather shows,")
    if webhook_url and not webhook_url.startswith(("https://", "http://")):
        raise ConfigError(f"webhook_url {webhook_url!r} is no address; write it as https://bots.example.com")
    if not 0 <= poll_seconds <= 60:
        raise ConfigError(f"poll_seconds is {poll_seconds}; give seconds from 0 to 60")
    secret = hmac.new(token.encode(), b"toolcaddie webhook", hashlib.sha256).hexdigest()
    calls = Calls("Telegram", parts.client)
    api = TelegramApi(calls, token=token, base_url=url)
    return Telegram(calls, api, secret=secret, webhook_url=webhook_url, poll_seconds=poll_seconds)


def _parameters(message: Outgoing) -> dict[str, Any]:
    """Returns the fields of a message besides its chat. The text is sent without a parse mode, so nothing in it is markup."""
    parameters: dict[str, Any] = {"text": message.text, "link_preview_options": {"is_disabled": True}}
    if message.handle and message.chat.startswith("-"):  # a group; in other chats the order says what is answered
        number, _, topic = message.handle.partition("/")
        parameters["reply_parameters"] = {"message_id": int(number), "allow_sending_without_reply": True}
        if topic:
            parameters["message_thread_id"] = int(topic)
    rows = [
        {"text": button.label, "callback_data": button.command}
        for button in message.buttons
        if len(button.command.encode()) <= _LONGEST_DATA
    ]
    if rows:
        parameters["reply_markup"] = {"inline_keyboard": [rows]}
    return parameters


def _update(value: Any) -> Update | None:
    """Returns an update; None: it has a form that is not understood, which is logged."""
    try:
        return msgspec.convert(value, Update)
    except msgspec.ValidationError as error:
        log.warning("telegram_update_not_read", error=str(error))
        return None


def _chat(update: Update) -> int | None:
    pressed = None if update.callback_query is None else update.callback_query.message
    message = update.message or update.edited_message or pressed
    return None if message is None else message.chat.id


def _number(chat: str) -> int | str:
    return int(chat) if chat.lstrip("-").isdecimal() else chat
