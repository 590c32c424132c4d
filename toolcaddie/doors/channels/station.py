"""A channel of the settings while it runs: its settings, its service, and names that follow from them."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field

from toolcaddie.app.settings.channels import ChannelSettings
from toolcaddie.core.bots import ChatAddress, chat_name
from toolcaddie.core.channels import Incoming
from toolcaddie.core.control import Principal
from toolcaddie.doors.channels.sentences import Sentences, sentences_in
from toolcaddie.engine.prompt import Language
from toolcaddie.ports.channels import Channel

_LONGEST_NAME = 64
_NOT_IN_A_NAME = str.maketrans({"[": "(", "]": ")"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A channel of the settings."""

    settings: ChannelSettings
    type: str
    """Name of the factory that made the service."""
    service: Channel
    language: Language = "en"
    """Language of the bot."""
    places: asyncio.Semaphore = field(init=False)
    """Limits the messages that are answered at the same time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", asyncio.Semaphore(self.settings.chats))

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def sentences(self) -> Sentences:
        """What the door itself says to people here."""
        return sentences_in(self.language)

    def principal(self, message: Incoming) -> Principal:
        """Returns the person who wrote a message."""
        return Principal(
            id=f"{self.name}:{message.person}",
            tenant=self.settings.tenant,
            bot=self.settings.bot,
            role=self.settings.role,
            channel=self.name,
        )

    def lane(self, chat: str) -> str:
        """Returns the name of the queue of a chat."""
        return f"{self.name}\0{chat}"

    def history(self, chat: str, *, group: bool, number: int) -> str:
        """Returns the name under which the messages of a chat are stored. `number`: how often a new conversation was begun."""
        name = chat_name(self.name, chat, group=group)
        return f"{name}#{number}" if number else name

    def address(self, chat: str) -> ChatAddress:
        return ChatAddress(channel=self.name, chat=chat)

    def work_id(self, message: Incoming) -> str:
        """Returns the id of the run that answers a message, the same one in every process."""
        digest = hashlib.sha256(f"{self.name}\0{message.key}".encode()).hexdigest()
        return f"run_{digest[:32]}"


def shown_name(message: Incoming) -> str:
    """Returns the name of a person for the bot: one line, and nothing in it can imitate the name of another person."""
    name = " ".join("".join(each if each.isprintable() else " " for each in message.name).split())
    return name.translate(_NOT_IN_A_NAME)[:_LONGEST_NAME] or message.person[:_LONGEST_NAME]
