"""Decides what becomes of a message, before anything of it is stored: most messages of strangers leave no trace."""

from __future__ import annotations

from typing import Literal

from toolcaddie.core.channels import Incoming
from toolcaddie.doors.channels.commands import read_command
from toolcaddie.doors.channels.people import EVERYBODY, Pairings
from toolcaddie.doors.channels.station import Station
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger
from toolcaddie.util.text import visible_line

log = Logger(__name__)

Reaction = Literal["answer", "pair", "ignore"]

_MOST_STRANGERS = 1_000


class Admission:
    """Says who may talk to a bot."""

    def __init__(self, pairings: Pairings) -> None:
        self._pairings = pairings
        self._strangers: Bounded[tuple[str, str], bool] = Bounded(_MOST_STRANGERS)
        """Those that are in the log already."""
        self._chats: Bounded[tuple[str, str], str] = Bounded(_MOST_STRANGERS)
        """The persons in the chats that were noted by this process."""

    async def reaction(self, station: Station, message: Incoming) -> Reaction:
        """Returns `answer` for a message to the bot from somebody who may talk to it, `pair` for a stranger who may get a code,
        and otherwise `ignore`."""
        # A command that somebody else wrote is none, so it lets nobody in.
        settings, command = station.settings, None if message.forwarded else read_command(message.text)
        if message.chat in settings.approvers and command is not None and command.name in ("approve", "deny"):
            return "answer"
        if message.group:
            if message.chat in settings.groups:
                return "answer" if message.addressed or command is not None else "ignore"
            self._note(station, message, message.chat)
            return "ignore"
        if EVERYBODY in settings.allow or message.person in settings.allow:
            return "answer"
        if await self._pairings.allows(station.name, message.person):
            return "answer"
        self._note(station, message, message.person)
        return "pair" if settings.pairing else "ignore"

    async def may_write(self, station: Station, chat: str) -> bool:
        """Returns True if the bot may begin a conversation in a chat."""
        settings = station.settings
        if chat in (*settings.groups, *settings.approvers) or EVERYBODY in settings.allow:
            return True
        person = await self._pairings.person_in(station.name, chat)
        return person in settings.allow or await self._pairings.allows(station.name, person)

    async def note_chat(self, station: Station, message: Incoming) -> None:
        """Notes the chat of a message that is answered, so that the bot may write there later."""
        place = (station.name, message.chat)
        if self._chats.get(place) != message.person:
            await self._pairings.note_chat(station.name, message)
            self._chats.put(place, message.person)

    async def pairing_text(self, station: Station, message: Incoming) -> str | None:
        """Returns the text with a code for a stranger; None: the stranger gets none now."""
        code = await self._pairings.new_code(station.name, message)
        return None if code is None else station.sentences.pairing.format(code=code)

    def _note(self, station: Station, message: Incoming, who: str) -> None:
        """Logs a stranger once, so that an operator learns the id that the settings need."""
        if (station.name, who) not in self._strangers:
            self._strangers.put((station.name, who), True)
            kind = "group" if message.group else "person"
            log.info("channel_stranger", channel=station.name, name=visible_line(message.name[:64]), **{kind: who})
