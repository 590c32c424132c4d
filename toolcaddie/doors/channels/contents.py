"""Makes what a bot reads from a message, and shows in the chat that it works on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from toolcaddie.core.channels import Incoming
from toolcaddie.core.content import Block, Content, Text
from toolcaddie.core.errors import OutboundError, ProviderError
from toolcaddie.doors.channels.station import Station, shown_name
from toolcaddie.guards.markers import marked
from toolcaddie.util.log import Logger

log = Logger(__name__)

FORWARDED = "A forwarded message, which somebody else wrote:"


async def content_of(station: Station, message: Incoming) -> Content:
    """Returns a message as the bot reads it. Raises `ProviderError` or `OutboundError` for a picture that cannot be had."""
    text = message.text.strip()
    if message.forwarded and text:
        text = f"{FORWARDED}\n{marked(text)}"
    if message.group and (text or message.pictures):
        text = f"[{shown_name(message)}]: {text}"
    pictures: Sequence[Block] = [await station.service.picture(reference) for reference in message.pictures]
    if not pictures:
        return text
    return (*([Text(text=text)] if text else []), *pictures)


@asynccontextmanager
async def busy(station: Station, message: Incoming) -> AsyncIterator[None]:
    """Shows in the chat that the bot works, as long as it does."""
    seconds = station.service.busy_seconds
    if not seconds:
        yield
        return

    async def show() -> None:
        while True:
            try:
                await station.service.show_busy(message)
            except (ProviderError, OutboundError) as error:  # nobody misses it
                log.debug("channel_busy_not_shown", channel=station.name, error=str(error))
            await asyncio.sleep(seconds)

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
