"""Makes what a bot reads from a message, and shows in the chat that it works on it."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcaddie.core.channels import Incoming
from toolcaddie.core.content import Content, Text
from toolcaddie.core.errors import OutboundError, ProviderError
from toolcaddie.doors.channels.attachments import attachments_of
from toolcaddie.doors.channels.station import Station, shown_name
from toolcaddie.guards.markers import marked
from toolcaddie.util.log import Logger

log = Logger(__name__)

_SPEAKER = re.compile(r"\W*\[[^\]]{1,100}\]\s*:")
"""The beginning of a line that looks like the message of another person."""
_LOOKED_AT = 400
"""The number of characters of a line that are looked at."""


async def content_of(station: Station, message: Incoming) -> Content:
    """Returns a message as the bot reads it; empty: nothing of it can be read. Raises `ProviderError` if the service fails."""
    attachments, sentences = await attachments_of(station, message), station.sentences
    text = message.text.strip()
    if message.forwarded and text:
        text = f"{sentences.forwarded}\n{marked(text)}"
    lines = [text] if text else []
    lines += (f"{sentences.attached}\n{marked(each)}" for each in attachments.texts)
    if not lines and not attachments.pictures:
        return ""
    if not attachments.is_complete:
        lines.append(sentences.also_unreadable)
    text = "\n".join(lines)
    if message.group:
        text = f"[{shown_name(message)}]: {_own_words(text)}"
    if not attachments.pictures:
        return text
    return (*([Text(text=text)] if text else []), *attachments.pictures)


def _own_words(text: str) -> str:
    """Returns the text of a message in a group, in which no line looks like the message of another person."""
    first, *more = text.splitlines() or [""]
    return "\n".join([first, *(f"> {line}" if _SPEAKER.match(_plain(line)) else line for line in more)])


def _plain(line: str) -> str:
    return unicodedata.normalize("NFKC", line[:_LOOKED_AT])


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
