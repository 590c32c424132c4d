"""Sends what bots say on their own, such as reminders, to the chats that they may write to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from toolcaddie.core.bots import ChatAddress
from toolcaddie.core.errors import RequestError
from toolcaddie.doors.channels.admission import Admission
from toolcaddie.doors.channels.journal import Journal
from toolcaddie.doors.channels.outbox import MESSAGE_SECONDS, Outbox, letter_of
from toolcaddie.doors.channels.station import Station
from toolcaddie.ports import Store
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

LONGEST_WAIT = MESSAGE_SECONDS + 1.0
"""Seconds after which a sender waits no longer. Whoever is patient for a minute learns the end."""


class Sending:
    """Does what `ports.Messenger` says, for the channels of one process. `start` begins a task that the channels keep."""

    def __init__(
        self,
        stations: Mapping[str, Station],
        admission: Admission,
        journal: Journal,
        outbox: Outbox,
        store: Store,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        self._stations = stations
        self._admission = admission
        self._journal = journal
        self._outbox = outbox
        self._store = store
        self._start = start
        self._longest_wait = longest_wait

    async def send(self, address: ChatAddress, text: str, *, key: str, sender: str, patience: float) -> bool:
        if not await self.may_write(address):
            raise RequestError(
                f"the channel {address.channel!r} may not write to the chat {address.chat[:64]!r}; name it in allow or groups "
                "of the channel, or pair the person",
                param="chat",
                code="chat_not_allowed",
            )
        station, text = self._as_sender(self.station(address.channel), address.chat, text, sender)
        letter = replace(letter_of(station, address.chat, text), unasked=True)
        if not letter.parts:
            raise RequestError("the message is empty", param="text")
        entry = await self._journal.write(station.name, key, letter, owner=await self._store.lease())
        if entry is None:
            return True

        # A caller that is cancelled does not cancel the message, half of which may have been sent.
        delivery = self._start(self._outbox.deliver(station, entry, seconds=patience))
        await asyncio.wait({delivery}, timeout=self._longest_wait)
        if delivery.done():
            delivery.result()
            return True
        delivery.add_done_callback(_read)
        return False

    async def may_write(self, address: ChatAddress) -> bool:
        return await self._admission.may_write(self.station(address.channel), address.chat)

    def is_group(self, address: ChatAddress) -> bool:
        return address.chat in self.station(address.channel).settings.groups

    def station(self, name: str) -> Station:
        """Returns the channel of that name. Raises `RequestError` if there is none."""
        if name not in self._stations:
            raise RequestError(
                f"there is no channel {name[:64]!r}; {did_you_mean(name, sorted(self._stations))}", param="channel"
            )
        return self._stations[name]

    def _as_sender(self, station: Station, chat: str, text: str, sender: str) -> tuple[Station, str]:
        """Returns the channel and the text with which a bot speaks in a chat: through its own account, if it has one of the same
        service there; otherwise through the account of another bot, with its name before the text."""
        if not sender or sender == station.settings.bot:
            return station, text
        for own in self._stations.values():
            if own.settings.bot == sender and own.type == station.type and chat in own.settings.groups:
                return own, text
        return station, f"{sender}: {text}"


def _read(delivery: asyncio.Task[None]) -> None:
    """Reads the outcome of a delivery for which nobody waits. The outbox has logged it."""
    if not delivery.cancelled():
        delivery.exception()
