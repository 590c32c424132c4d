"""The webhooks of channels as an ASGI application, which the server mounts at `/channels/`.

It only bounds and reads the request; the channel checks who sent it, and answers before the bot does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from toolcaddie.core.channels import ChannelReply, ChannelRequest
from toolcaddie.core.errors import ProviderError, StorageError
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.inbox import PATH
from toolcaddie.doors.small_bodies import respond, small_body
from toolcaddie.util.log import Logger

log = Logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BYTES = 1024 * 1024
"""Size of the largest request."""
_BODY_SECONDS = 20.0
_METHODS = ("GET", "POST")
_MOST_FIELDS = 20


class ChannelsDoor:
    """Passes each request to its channel. Everything that is refused here gets a status and no explanation."""

    paths = (PATH,)
    """The paths at which this application is mounted."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"].removeprefix(PATH)
        try:
            reply = await self._reply(name, scope, receive)
        except (ProviderError, StorageError) as error:  # the service delivers the message again
            log.error("channel_request_failed", channel=name[:64], error=str(error))
            reply = ChannelReply(status=503)
        except Exception:  # the outermost frame: the server would log a traceback and close the connection
            log.exception("channel_request_failed", channel=name[:64])
            reply = ChannelReply(status=500)
        if reply is not None:
            headers = [(b"content-type", reply.content_type.encode()), (b"x-content-type-options", b"nosniff")]
            await respond(send, reply.status, reply.body, headers)

    async def _reply(self, name: str, scope: Scope, receive: Receive) -> ChannelReply | None:
        """Returns the response; None: the client is gone."""
        if scope["method"] not in _METHODS:
            return ChannelReply(status=405)
        counts = Counter(key for key, _ in scope["headers"])
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"] if counts[key] == 1
        }
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await small_body(receive, MOST_BYTES)
        except TimeoutError:
            return ChannelReply(status=408)
        if body is None:
            return None
        if len(body) > MOST_BYTES:
            return ChannelReply(status=413)
        try:
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), max_num_fields=_MOST_FIELDS))
        except ValueError:
            return ChannelReply(status=400)
        request = ChannelRequest(method=scope["method"], query=query, headers=headers, body=body)
        return await self._channels.receive(name, request) or ChannelReply(status=404)
