"""Interfaces (sockets) for channels: messaging services through which people talk to bots."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming, Outgoing
from toolcaddie.core.content import Image


class ChannelInbox(Protocol):
    """What a channel is given: a receiver of its messages, and a place for its own small state."""

    url_path: str
    """The path at which the server passes requests to `Channel.receive`."""

    async def put(self, message: Incoming) -> None:
        """Takes a message. On return it is on disk, or it is not to be answered: it came before, or its sender may not talk to
        the bot. Raises `StorageError` if it could not be stored; then it must be delivered again."""
        ...

    async def recall(self, key: str) -> str | None:
        """Returns a value that was noted; None: there is none."""
        ...

    async def note(self, key: str, value: str, *, seconds: float | None = None) -> None:
        """Stores a small value, for all processes. `seconds`: time after which it is forgotten; None: never. Raises
        `StorageError` if this process no longer runs the channel."""
        ...


class Channel(Protocol):
    """A bot's account at a messaging service.

    Of all processes with the same database, one calls `listen`, while any of them may call the other methods. A failure of the
    service is raised as `ProviderError`: `ProviderUnavailableError` and `ProviderRateLimitError` are worth repeating.
    """

    longest: int
    """Length of the longest text of one message, in UTF-16 units."""
    busy_seconds: float
    """Seconds for which `show_busy` has an effect; 0: it has none."""

    async def open(self, inbox: ChannelInbox) -> None:
        """Makes the channel ready, without waiting for the service."""
        ...

    async def listen(self) -> None:
        """Passes messages to the inbox until it is cancelled. A channel that only has a webhook returns."""
        ...

    async def receive(self, request: ChannelRequest) -> ChannelReply:
        """Checks a request to the webhook, passes its messages to the inbox and returns the response, without waiting for
        answers. A request without a valid signature gets status 401."""
        ...

    async def send(self, message: Outgoing) -> None:
        """Sends a message."""
        ...

    async def show_busy(self, message: Incoming) -> None:
        """Shows in the chat that the bot works on a message."""
        ...

    async def picture(self, reference: str) -> Image:
        """Returns a picture of a message. Raises `OutboundError` if it is too large or gone."""
        ...

    async def facts(self) -> ChannelFacts:
        """Asks the service for the identity of the bot, which shows whether the settings are right."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class FileChannel(Channel, Protocol):
    """A channel that can read the files of its messages. Those of other channels have no `Incoming.files`."""

    async def file(self, reference: str, most: int) -> bytes:
        """Returns a file of a message. Raises `OutboundError` if it has more than `most` bytes or is gone."""
        ...
