"""What the shipped channels have in common: their inbox and their connections, and how those begin that only have a webhook."""

from __future__ import annotations

from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.channels.calls import Calls
from toolcaddie.ports.channels import ChannelInbox


class BaseChannel:
    """A channel whose service is called by `calls`. `accepts`: what its deliveries are recognised by, such as the key that signs
    them; another channel of its type with the same would take them too."""

    def __init__(self, calls: Calls, *, accepts: str) -> None:
        self.accepts = accepts
        self._calls = calls
        self._inbox: ChannelInbox | None = None

    async def open(self, inbox: ChannelInbox) -> None:
        self._inbox = inbox

    async def close(self) -> None:
        await self._calls.close()

    @property
    def _opened(self) -> ChannelInbox:
        if self._inbox is None:
            raise ConfigError("the channel is not open; use it inside `async with Channels(...)`")
        return self._inbox


class WebhookChannel(BaseChannel):
    """A channel that only has a webhook."""

    async def listen(self) -> None:
        """Does nothing: the service sends its messages."""
