"""The channel `whatsapp`: a phone number of WhatsApp's Cloud API.

[[channel]]
name = "assistant"
type = "whatsapp"
phone_number_id = "106540352242922"
token_env = "WHATSAPP_TOKEN"
app_secret_env = "WHATSAPP_APP_SECRET"
verify_token_env = "WHATSAPP_VERIFY_TOKEN"
allow = ["*"]
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.content import Image
from toolcaddie.core.errors import ConfigError, OutboundError, ProviderProtocolError, ProviderRejectedError
from toolcaddie.doors.channels.base import WebhookChannel
from toolcaddie.doors.channels.calls import Calls
from toolcaddie.doors.channels.pictures import MOST_BYTES, image_of
from toolcaddie.doors.channels.splitting import split, units
from toolcaddie.doors.channels.whatsapp.reading import Notification, messages_of
from toolcaddie.guards.signatures import is_hex_signed
from toolcaddie.parts import Parts, Variable

URL = "https://graph.facebook.com/v23.0"

_WINDOW_SECONDS = 86_400.0
"""Time after a person's last message in which free texts may be sent."""
_LAST = "last:"
_LONGEST_PARAMETER = 1_024
_LONGEST_LABEL, _MOST_BUTTONS, _LONGEST_WITH_BUTTONS = 20, 3, 1_024
_MEDIA_HOSTS = (".fbsbx.com", ".facebook.com", ".whatsapp.net")
"""Ends of the hosts from which files are fetched with the token."""
_BUSY_CODES = frozenset({4, 80007, 130429, 131056})
"""Codes of errors that mean too many messages."""


class _Error(Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Failure(Struct, frozen=True):
    error: _Error = _Error()


class _Link(Struct, frozen=True):
    url: str
    file_size: int = 0


class WhatsApp(WebhookChannel):
    """Implements `ports.FileChannel`."""

    longest = 4_096
    busy_seconds = 20.0

    def __init__(
        self,
        calls: Calls,
        *,
        url: str,
        phone_number_id: str,
        token: str,
        app_secret: str,
        verify_token: str,
        template: str,
        template_language: str,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(calls, accepts=phone_number_id)
        self._url = url.rstrip("/")
        self._number = phone_number_id
        self._token = token
        self._app_secret = app_secret.encode()
        self._verify_token = verify_token.encode()
        self._template = template
        self._template_language = template_language
        self._clock = clock

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        if request.method == "GET":
            return self._verified(request)
        kind, _, digits = request.headers.get("x-hub-signature-256", "").partition("=")
        if kind != "sha256" or not is_hex_signed(self._app_secret, request.body, digits):
            return ChannelReply(status=401)
        try:
            notification = msgspec.json.decode(request.body, type=Notification)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return ChannelReply(status=400)
        for message in messages_of(notification, self._number, now=self._clock()):
            await self._opened.note(f"{_LAST}{message.chat}", f"{self._clock():.0f}", seconds=_WINDOW_SECONDS)
            await self._opened.put(message)
        return ChannelReply(status=200)

    async def send(self, message: Outgoing) -> None:
        last = await self._opened.recall(f"{_LAST}{message.chat}")
        if last is not None and self._clock() - float(last) < _WINDOW_SECONDS:
            for body in _bodies(message):
                await self._post(body)
        elif self._template:
            await self._post({"to": message.chat, "type": "template", "template": self._filled(message.text)})
        else:
            raise ProviderRejectedError(
                "WhatsApp takes texts only for 24 hours after a message of the person; to write later, name an approved "
                "template with one parameter in the setting `template` of the channel"
            )

    async def show_busy(self, message: Incoming) -> None:
        """Marks the message as read, and shows that an answer is being written."""
        await self._post({"status": "read", "message_id": message.handle, "typing_indicator": {"type": "text"}})

    async def picture(self, reference: str) -> Image:
        return image_of(await self.file(reference, MOST_BYTES))

    async def file(self, reference: str, most: int) -> bytes:
        """Fetches the address of a file, and then the file."""
        if not (reference.isascii() and reference.isalnum()):
            raise OutboundError("the id of the file is none")
        try:
            link = msgspec.json.decode(await self._called("GET", f"{self._url}/{reference}"), type=_Link)
        except msgspec.MsgspecError as error:
            raise ProviderProtocolError("WhatsApp's answer has no address of the file") from error
        if link.file_size > most:
            raise OutboundError(f"it is larger than {most:,} bytes")
        address, own = urlsplit(link.url), urlsplit(self._url)
        is_own = (address.scheme, address.netloc) == (own.scheme, own.netloc)
        if not is_own and not (address.scheme == "https" and (address.hostname or "").endswith(_MEDIA_HOSTS)):
            raise OutboundError("its address is not one of WhatsApp's")
        return await self._called("GET", link.url, most=most)

    async def facts(self) -> ChannelFacts:
        data = await self._called("GET", f"{self._url}/{self._number}?fields=display_phone_number,verified_name")
        details = msgspec.json.decode(data, type=dict[str, Any])
        return ChannelFacts(bot=str(details.get("display_phone_number", self._number)), details=details)

    def _verified(self, request: ChannelRequest) -> ChannelReply:
        """Answers the request with which WhatsApp checks that the address is ours."""
        token = request.query.get("hub.verify_token", "").encode()
        if request.query.get("hub.mode") != "subscribe" or not hmac.compare_digest(token, self._verify_token):
            return ChannelReply(status=401)
        return ChannelReply(status=200, body=request.query.get("hub.challenge", "").encode())

    def _filled(self, text: str) -> dict[str, Any]:
        """Returns the template with a text as its parameter, which must be one line."""
        line = " ".join(text.split())
        if len(line) > _LONGEST_PARAMETER:
            raise ProviderRejectedError(
                f"a template of WhatsApp takes {_LONGEST_PARAMETER:,} characters, and the text has {len(line):,}; shorten it"
            )
        return {
            "name": self._template,
            "language": {"code": self._template_language},
            "components": [{"type": "body", "parameters": [{"type": "text", "text": line}]}],
        }

    async def _post(self, body: dict[str, Any]) -> None:
        content = msgspec.json.encode({"messaging_product": "whatsapp", **body})
        await self._called("POST", f"{self._url}/{self._number}/messages", data=content)

    async def _called(self, method: str, url: str, *, most: int = 1024 * 1024, data: bytes | None = None) -> bytes:
        """Returns the body of a response. Raises `ProviderError` or `OutboundError`."""
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        status, body = await self._calls.call(method, url, most=most, data=data, headers=headers)
        if 200 <= status < 300:
            return body
        try:
            problem = msgspec.json.decode(body, type=_Failure).error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            problem = _Error()
        status = 429 if problem.code in _BUSY_CODES else status
        raise self._calls.refusal(status, problem.message or "no reason was given")


def whatsapp(
    *,
    phone_number_id: str,
    token_env: Variable = "WHATSAPP_TOKEN",
    app_secret_env: Variable = "WHATSAPP_APP_SECRET",
    verify_token_env: Variable = "WHATSAPP_VERIFY_TOKEN",
    template: str = "",
    template_language: str = "en",
    url: str = URL,
    parts: Parts,
) -> WhatsApp:
    """Returns the channel. `template`: an approved template with one parameter, for texts outside of the 24 hours; empty: such
    texts are errors. Raises `ConfigError` if a secret is not set."""
    if not phone_number_id.isdecimal():
        raise ConfigError(f"phone_number_id {phone_number_id!r} is not the id of a phone number, which has digits only")
    secrets = parts.secrets
    return WhatsApp(
        Calls("WhatsApp", parts.client),
        url=url,
        phone_number_id=phone_number_id,
        token=secrets.require(token_env, what="the access token of the app"),
        app_secret=secrets.require(app_secret_env, what="the secret of the app, which signs webhooks"),
        verify_token=secrets.require(verify_token_env, what="the token that you enter where the webhook is registered"),
        template=template,
        template_language=template_language,
        clock=parts.clock,
    )


def _bodies(message: Outgoing) -> list[dict[str, Any]]:
    """Returns the messages for a text: one, or if the text is too long for buttons, another one with its end and the buttons."""
    if not message.buttons:
        return [{"to": message.chat, "type": "text", "text": {"body": message.text, "preview_url": False}}]
    if units(message.text) > _LONGEST_WITH_BUTTONS:
        end = split(message.text, _LONGEST_WITH_BUTTONS)[-1]
        plain = msgspec.structs.replace(message, text=message.text.rstrip().removesuffix(end).rstrip(), buttons=())
        return [*_bodies(plain), *_bodies(msgspec.structs.replace(message, text=end))]
    buttons = [
        {"type": "reply", "reply": {"id": button.command, "title": button.label[:_LONGEST_LABEL]}}
        for button in message.buttons[:_MOST_BUTTONS]
    ]
    interactive = {"type": "button", "body": {"text": message.text}, "action": {"buttons": buttons}}
    return [{"to": message.chat, "type": "interactive", "interactive": interactive}]
