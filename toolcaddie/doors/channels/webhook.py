"""The channel `webhook`: any program that signs its requests by Standard Webhooks (standardwebhooks.com).

    POST /channels/NAME   {"id": "m1", "chat": "42", "person": "ann", "name": "Ann", "text": "Hello"}

The response 202 says that the message is on disk; 400 says, to whoever has the secret, what is wrong with the body. The answer is
posted to `reply_url`, signed in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.content import Image
from toolcaddie.core.errors import ConfigError, OutboundError, ProviderUnavailableError
from toolcaddie.doors.channels.base import WebhookChannel
from toolcaddie.doors.channels.calls import Calls
from toolcaddie.guards.signatures import is_signed, signature, signing_key
from toolcaddie.parts import Parts, Variable
from toolcaddie.util.text import visible_line

_OLDEST_SECONDS = 300.0
"""Age of the oldest request that is accepted, and how far a clock may be ahead."""
_LONGEST_TEXT = 65_536
_LONGEST_PROBLEM = 200
_SECONDS = 15.0
_WEAKEST_SECRET = 16

_Id = Annotated[str, Meta(min_length=1, max_length=128)]


class _Message(Struct, frozen=True, forbid_unknown_fields=True):
    id: _Id
    chat: _Id
    person: _Id
    text: Annotated[str, Meta(max_length=_LONGEST_TEXT)]
    name: Annotated[str, Meta(max_length=256)] = ""
    group: bool = False
    addressed: bool = True
    forwarded: bool = False


class Webhook(WebhookChannel):
    """Implements `ports.Channel`."""

    longest = 4_096
    busy_seconds = 0.0

    def __init__(self, calls: Calls, *, key: bytes, reply_url: str, clock: Callable[[], float]) -> None:
        super().__init__(calls, accepts=key.hex())
        self._key = key
        self._reply_url = reply_url
        self._clock = clock

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        headers = request.headers
        message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        signatures = headers.get("webhook-signature", "")
        if not is_signed(self._key, message_id, stamp, request.body, signatures) or not self._is_recent(stamp):
            return ChannelReply(status=401)
        if request.method != "POST":
            return ChannelReply(status=405)
        if not request.body:
            return _refusal("the body is empty")
        try:
            message = msgspec.json.decode(request.body, type=_Message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _refusal(str(error))
        if any(visible_line(each) != each for each in (message.id, message.chat, message.person)):
            return _refusal(
                "id, chat or person has a control character"
            )  # they are shown to people, and name what is stored
        # The id of the message and not that of the request: a request that is sent again may get another one.
        await self._opened.put(
            Incoming(
                key=message.id,
                chat=message.chat,
                person=message.person,
                name=message.name,
                text=message.text,
                group=message.group,
                addressed=message.addressed,
                forwarded=message.forwarded,
                handle=message.id,
            )
        )
        return ChannelReply(status=202)

    async def send(self, message: Outgoing) -> None:
        body = msgspec.json.encode(
            {
                "id": message.key,
                "chat": message.chat,
                "text": message.text,
                "reply_to": message.handle or None,
                "buttons": [{"label": each.label, "text": each.command} for each in message.buttons],
            }
        )
        webhook_id = f"msg_{hashlib.sha256(message.key.encode()).hexdigest()[:32]}"
        stamp = str(int(self._clock()))
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(self._key, webhook_id, stamp, body),
        }
        try:
            status, _ = await self._calls.call("POST", self._reply_url, seconds=_SECONDS, data=body, headers=headers)
        except OutboundError as error:
            raise ProviderUnavailableError(str(error)) from error
        if not 200 <= status < 300:
            raise self._calls.refusal(status, "the message was not accepted")

    async def show_busy(self, message: Incoming) -> None:
        """Does nothing: there is no such message."""

    async def picture(self, reference: str) -> Image:
        raise OutboundError("this channel has no pictures")

    async def facts(self) -> ChannelFacts:
        """Returns the address of the replies. Nothing is sent to it, because everything sent there is a message."""
        return ChannelFacts(bot="webhook", details={"reply_url": self._reply_url})

    def _is_recent(self, stamp: str) -> bool:
        return (
            stamp.isascii()
            and stamp.isdecimal()
            and len(stamp) < 12
            and abs(self._clock() - int(stamp)) <= _OLDEST_SECONDS
        )


def _refusal(problem: str) -> ChannelReply:
    """Returns the response to a signed request with a wrong body."""
    shown = visible_line(problem)[:_LONGEST_PROBLEM]
    return ChannelReply(status=400, body=f"{shown}; send JSON with the texts id, chat, person and text\n".encode())


def webhook(*, secret_env: Variable, reply_url: str, parts: Parts) -> Webhook:
    """Returns the channel. `secret_env` names the secret of both directions: `whsec_` and base64, or another text. Raises
    `ConfigError`."""
    if not reply_url.startswith(("https://", "http://")):
        raise ConfigError(f"reply_url {reply_url!r} is no address; write it as https://chat.example.com/replies")
    key = signing_key(parts.secrets.require(secret_env, what="the secret that signs messages"))
    if len(key) < _WEAKEST_SECRET:
        raise ConfigError(
            f"the secret in {secret_env} is too short to sign with; take at least {_WEAKEST_SECRET} bytes"
        )
    return Webhook(Calls("the reply_url", parts.client), key=key, reply_url=reply_url, clock=parts.clock)
