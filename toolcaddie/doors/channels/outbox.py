"""Sends letters part by part, again where the service could not be reached, and ticks off what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from toolcaddie.core.channels import Outgoing
from toolcaddie.core.errors import ProviderError, StorageError
from toolcaddie.doors.channels.journal import Entry, Journal, Letter, Lost
from toolcaddie.doors.channels.splitting import split
from toolcaddie.doors.channels.station import Station
from toolcaddie.util.log import Logger
from toolcaddie.util.text import valid_text

log = Logger(__name__)

WAITS: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds before each repetition; the last one counts for all further ones."""
ANSWER_SECONDS = 3_600.0
"""Time after which an answer that cannot be sent is given up."""
MESSAGE_SECONDS = 60.0
"""The same for a message that a bot sends on its own and for whose end its sender waits."""
_LONGEST_WAIT = 900.0
"""The longest time that a service may ask for between two messages."""


def letter_of(station: Station, chat: str, text: str, *, handle: str = "") -> Letter:
    """Returns a text as a letter, split as the channel of the chat needs it."""
    parts = split(valid_text(text).replace("\0", ""), station.service.longest)
    return Letter(chat=chat, parts=tuple(parts), handle=handle)


class Outbox:
    """Sends letters. `may_write` is asked about the chats of letters that answer nothing. `waits`: seconds before each
    repetition."""

    def __init__(
        self,
        journal: Journal,
        may_write: Callable[[Station, str], Awaitable[bool]],
        waits: Sequence[float] = WAITS,
    ) -> None:
        self._journal = journal
        self._may_write = may_write
        self._waits = waits

    async def deliver(self, station: Station, entry: Entry, *, seconds: float = ANSWER_SECONDS) -> None:
        """Sends the parts of a letter that were not sent yet. Raises `ProviderError` if that failed for good, or
        was not possible for `seconds`; the letter is then given up."""
        try:
            async with asyncio.timeout(seconds):
                while (letter := entry.row.letter) is not None:
                    await self._send(station, entry.row.key, letter)
                    entry = await self._journal.tick(entry)
        except Lost:
            log.warning("channel_message_taken_over", channel=station.name)
        except StorageError:
            raise  # the letter is not given up: it is sent when the database works again
        except Exception as error:  # code of another package: whatever it raises, the next message is sent
            reason = str(error) or f"the channel could not be reached for {seconds:g} s"
            log.error("channel_message_not_sent", channel=station.name, error=reason, kind=type(error).__name__)
            await self._journal.finish(entry, failed=reason)
            if isinstance(error, ProviderError):
                raise
            raise ProviderError(f"channel {station.name!r}: {reason}") from error

    async def _send(self, station: Station, key: str, letter: Letter) -> None:
        """Sends the next part of a letter, again after each failure that may pass."""
        message = _part(key, letter)
        attempt = 0
        while True:
            if letter.unasked and not await self._may_write(station, letter.chat):
                raise ProviderError("the chat may not be written to any more")
            try:
                await station.service.send(message)
            except ProviderError as error:
                if not error.retryable:
                    raise
                wait = (
                    self._waits[min(attempt, len(self._waits) - 1)] if error.retry_after is None else error.retry_after
                )
                log.warning("channel_message_retried", channel=station.name, error=str(error), wait=wait)
                attempt += 1
                await asyncio.sleep(min(wait, _LONGEST_WAIT))
            else:
                return


def _part(key: str, letter: Letter) -> Outgoing:
    """Returns the next part of a letter. The first one replies, and the last one has the buttons."""
    number = letter.sent
    return Outgoing(
        chat=letter.chat,
        text=letter.parts[number],
        key=f"{key}:{number + 1}",
        handle=letter.handle if number == 0 else "",
        buttons=letter.buttons if number == len(letter.parts) - 1 else (),
    )
