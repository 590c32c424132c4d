"""The channels of the settings while they run: `Channels`.

    channels = Channels(stations, talk, store)
    async with channels:                     # receives messages, and answers them
        await channels.send(ChatAddress(channel="support", chat="123"), "Good morning!", key="greeting-1")

Every process with the same database may send messages and take webhooks. One of them, the leading one, fetches messages and
answers all; if it dies, another one continues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from toolcaddie.core.bots import ChatAddress
from toolcaddie.core.channels import ChannelFacts, ChannelReply, ChannelRequest, Incoming
from toolcaddie.core.errors import ConfigError, ProviderError, StorageError
from toolcaddie.doors.channels.admission import Admission
from toolcaddie.doors.channels.answering import Answering
from toolcaddie.doors.channels.dispatch import Dispatch
from toolcaddie.doors.channels.histories import Histories
from toolcaddie.doors.channels.inbox import Inbox
from toolcaddie.doors.channels.journal import Entry, Journal
from toolcaddie.doors.channels.leading import Leading
from toolcaddie.doors.channels.listening import listen_forever
from toolcaddie.doors.channels.outbox import MESSAGE_SECONDS, WAITS, Outbox, letter_of
from toolcaddie.doors.channels.people import Pairings
from toolcaddie.doors.channels.questions import Questions
from toolcaddie.doors.channels.sending import LONGEST_WAIT, Sending
from toolcaddie.doors.channels.station import Station
from toolcaddie.ports import BotTalk, Store
from toolcaddie.util.log import Logger

log = Logger(__name__)


class Channels:
    """All channels. Implements `ports.Messenger`.

    `clock` returns the seconds since the epoch. `look_seconds`: time between two looks for messages that other processes have
    taken. `waits`: seconds before each repetition of a message that failed. `longest_wait`: seconds after which the sender of a
    message waits no longer.
    """

    def __init__(
        self,
        stations: Sequence[Station],
        talk: BotTalk,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        look_seconds: float = 0.25,
        waits: Sequence[float] = WAITS,
        longest_wait: float = LONGEST_WAIT,
    ) -> None:
        self._stations: Mapping[str, Station] = {station.name: station for station in stations}
        if len(self._stations) < len(stations):
            raise ConfigError("two channels have the same name; give each [[channel]] a name of its own")
        self._store = store
        self._look_seconds = look_seconds
        self._journal = Journal(store, clock)
        self._admission = Admission(Pairings(store, clock))
        self._outbox = Outbox(self._journal, self._admission.may_write, waits)
        self._sending = Sending(
            self._stations, self._admission, self._journal, self._outbox, store, self._start, longest_wait=longest_wait
        )
        self._leading = Leading(store, look_seconds=look_seconds)
        self._histories, self._questions = Histories(store), Questions(store, talk)
        self._answering = Answering(talk, self._journal, self._outbox, self._questions, self._histories)
        self._dispatch: Dispatch | None = None
        """None: another process leads."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._leads = asyncio.Event()

    async def __aenter__(self) -> Channels:
        for station in self._stations.values():
            await station.service.open(Inbox(station.name, self._take, self._store, lambda: self._owner))
        self._start(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops. Messages that are not answered yet are answered by the process that leads next."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for station in self._stations.values():
            await station.service.close()

    async def until_leading(self) -> None:
        """Waits until this process is the leading one."""
        await self._leads.wait()

    # --- ports.Messenger

    async def send(
        self, address: ChatAddress, text: str, *, key: str, sender: str = "", patience: float = MESSAGE_SECONDS
    ) -> bool:
        """Sends a text to a chat, in several messages if it is long; the same key is sent once."""
        return await self._sending.send(address, text, key=key, sender=sender, patience=patience)

    async def may_write(self, address: ChatAddress) -> bool:
        return await self._sending.may_write(address)

    def is_group(self, address: ChatAddress) -> bool:
        return self._sending.is_group(address)

    # --- for the HTTP server and the command line

    async def receive(self, name: str, request: ChannelRequest) -> ChannelReply | None:
        """Passes a request to the channel of that name; None: there is none."""
        station = self._stations.get(name)
        return None if station is None else await station.service.receive(request)

    async def facts(self, name: str) -> ChannelFacts:
        """Asks a channel for the identity of its bot. Raises `RequestError` for an unknown channel, and `ProviderError`."""
        return await self._sending.station(name).service.facts()

    # --- messages

    async def _take(self, name: str, message: Incoming) -> None:
        """Takes a message: see `ports.ChannelInbox.put`."""
        station, dispatch = self._stations[name], self._dispatch
        reaction = await self._admission.reaction(station, message)
        if reaction == "pair":
            await self._pair(station, message)
        elif reaction == "answer":
            await self._admission.note_chat(station, message)
            owner = None if dispatch is None else dispatch.owner
            entry = await self._journal.record(name, message, owner=owner)
            if entry is not None and dispatch is not None:
                await dispatch.collect(station)
                dispatch.put(station, entry)

    async def _pair(self, station: Station, message: Incoming) -> None:
        """Sends a code to a stranger, without waiting for the service."""
        text = await self._admission.pairing_text(station, message)
        if text is None:
            return
        letter, number = letter_of(station, message.chat, text), await self._store.lease()
        entry = await self._journal.write(station.name, f"pair:{message.key}", letter, owner=number)
        if entry is not None:
            self._start(self._deliver_code(station, entry))

    async def _deliver_code(self, station: Station, entry: Entry) -> None:
        with suppress(ProviderError):  # the outbox logs it, and the stranger writes again
            await self._outbox.deliver(station, entry, seconds=MESSAGE_SECONDS)

    # --- leading

    @property
    def _owner(self) -> int | None:
        return None if self._dispatch is None else self._dispatch.owner

    async def _run(self) -> None:
        """Leads whenever no other process does."""
        while True:
            try:
                await self._lead(await self._leading.begin())
            except StorageError as error:
                log.error("channels_interrupted", error=str(error))
            await asyncio.sleep(self._look_seconds)

    async def _lead(self, owner: int) -> None:
        """Receives and answers messages until another process leads, or the database fails."""
        stations = list(self._stations.values())
        dispatch = Dispatch(
            stations, self._journal, self._answering, self._questions, self._histories, self._store, owner
        )
        try:
            await dispatch.continue_all(begins=True)  # before new messages, so that those of a chat stay in order
        except BaseException:
            await dispatch.close()
            raise
        self._dispatch = dispatch
        self._leads.set()
        log.info("channels_running", channels=sorted(self._stations))
        tasks = [asyncio.create_task(listen_forever(station)) for station in stations]
        others = (dispatch.follow(self._look_seconds), dispatch.until_broken(), self._watch(owner))
        tasks += [asyncio.create_task(work) for work in others]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            self._dispatch = None
            self._leads.clear()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await dispatch.close()
            with suppress(StorageError):  # the next process notices it anyway
                await self._leading.end(owner)

    async def _watch(self, owner: int) -> None:
        """Raises `StorageError` when another process leads."""
        while await self._leading.holds(owner):  # noqa: ASYNC110  the database has no event for it
            await asyncio.sleep(self._look_seconds)
        raise StorageError("another process runs the channels now, because this one seemed to be gone")

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
