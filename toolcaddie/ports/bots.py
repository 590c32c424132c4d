"""Interfaces (sockets) for bots: asking one, its files, its chats, and sending a message to a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, ChatAddress, ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.personas import Author, PersonaFile, PersonaKey


class BotRunner(Protocol):
    """Lets bots work. Tools that ask another bot have this and nothing of the runtime."""

    def cards(self, asker: Principal, tools: Sequence[str] | None = None) -> Sequence[BotCard]:
        """Returns the bots that a principal may ask, without its own, in the order of the settings. `tools`: the names of the
        tools that the asker may use itself; a card shows only these."""
        ...

    async def answer(self, work: BotWork) -> BotAnswer:
        """Lets the bot work and returns its answer. The work is durable: it goes on in another process if this one dies, and the
        same `work.id` returns the same answer. A failure of the run is an answer with status `failed`.

        Raises `RequestError` for an unknown bot.
        """
        ...

    async def begin(self, work: BotWork) -> None:
        """Begins the same without waiting for its end. On return the work is on disk."""
        ...


class Messenger(Protocol):
    """Sends messages to chats of the channels in the settings, from any process."""

    async def send(self, address: ChatAddress, text: str, *, key: str, sender: str = "") -> None:
        """Sends a text, in several messages if it is long. `key`: the same key is sent once, as far as the channel can tell.
        `sender`: the bot in whose name it is sent; empty: the bot of the channel.

        Raises `RequestError` for an unknown channel or a chat that may not be written to, and `ProviderError` if the channel
        cannot be reached.
        """
        ...

    def is_group(self, address: ChatAddress) -> bool:
        """Returns True if the address is a chat of several people."""
        ...


class PersonaFiles(Protocol):
    """The markdown files of bots, with all their versions."""

    async def read(self, key: PersonaKey, path: str) -> PersonaFile | None:
        """Returns the newest version of a file; None: there is no such file, or it is deleted."""
        ...

    async def write(
        self, key: PersonaKey, path: str, text: str, *, author: Author, expected: int | None, note: str = ""
    ) -> PersonaFile | None:
        """Writes the next version of a file. `expected`: the version that the writer has read, 0 if there was none; None: any.
        Returns None if the file has another version by now, and writes nothing.

        Raises `RequestError` for a path that is absolute, leaves the persona or is not markdown, and for a text that is too long.
        """
        ...

    async def paths(self, key: PersonaKey, prefix: str = "") -> Sequence[PersonaFile]:
        """Returns the newest version of each file whose path begins with `prefix`, by path."""
        ...

    async def versions(self, key: PersonaKey, path: str) -> Sequence[PersonaFile]:
        """Returns all kept versions of a file, the oldest first."""
        ...

    async def delete(self, key: PersonaKey, path: str, *, author: Author, forget: bool = False) -> bool:
        """Deletes a file. `forget`: its versions are erased too. Returns False if there was none."""
        ...


class Chats(Protocol):
    """The stored chats of bots."""

    async def turns(self, key: ChatKey, *, after: int = 0) -> Sequence[ChatTurn]:
        """Returns the messages of a chat, the oldest first. `after`: skips that number of messages."""
        ...

    async def add(self, key: ChatKey, turns: Sequence[ChatTurn]) -> None:
        """Adds messages to the end of a chat. A message whose key is there already is not added again."""
        ...

    async def names(self, tenant: str, bot: str) -> Sequence[str]:
        """Returns the names of the stored chats of a bot."""
        ...

    async def delete(self, key: ChatKey) -> bool:
        """Erases a chat. Returns False if there was none."""
        ...
