"""Interfaces (sockets) for bots: asking one, its files, its chats, and sending a message to a chat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from toolcaddie.core.approval import Approval
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


class BotTalk(Protocol):
    """Answers people at once, for doors through which people talk to bots. What a process leaves behind goes on when the same
    work is answered again."""

    async def answer(self, work: BotWork) -> BotAnswer:
        """Answers a message in its chat. A cancellation stops the run, and the message is not part of the chat. With status
        `pending`, `questions` has what a person is asked.

        Raises `RequestError` for an unknown bot, and `RunError` or `ProviderError` if the run fails.
        """
        ...

    async def questions(self, run_id: str) -> Sequence[Approval]:
        """Returns the questions for whose answers a run waits, open and answered ones."""
        ...

    async def decide(self, approval_id: str, *, approve: bool, by: Principal, reason: str = "") -> Approval:
        """Answers a question in the name of a person. Raises `RequestError` if there is no such open question, or if this person
        may not answer it."""
        ...

    async def resume(self, work: BotWork) -> BotAnswer:
        """Continues the run of a piece of work whose questions are all answered, and adds its answer to the chat."""
        ...


class WorkQueue(Protocol):
    """Durable work: what is put here is done, in this process or in another one, whatever dies meanwhile."""

    async def put(
        self, kind: str, work_id: str, payload: bytes, *, delay: float = 0.0, tenant: str | None = None
    ) -> None:
        """Puts a piece of work; on return it is on disk. The same id is put once. `kind` names the function that does it: it is
        given the payload and returns the result. It may run more than once, so it must be safe to repeat. `delay`: seconds
        before it begins. `tenant`: whose work it is, if the kind has limits for each tenant.

        Raises `QueueFullError` if too much work of the tenant waits already."""
        ...

    async def result(self, work_id: str, *, timeout: float | None = None) -> bytes:
        """Waits for the end of a piece of work and returns its result. Raises `TimeoutError` after `timeout` seconds, and
        `RunError` if the function has failed for good or the work was cancelled."""
        ...

    async def cancel(self, work_id: str) -> None:
        """Ends a piece of work: it is not begun, or cancelled where it runs."""
        ...


class Messenger(Protocol):
    """Sends messages to chats of the channels in the settings, from any process."""

    async def send(
        self, address: ChatAddress, text: str, *, key: str, sender: str = "", patience: float = 60.0
    ) -> bool:
        """Sends a text, in several messages if it is long. `key`: the same key is sent once, as far as the channel can tell.
        `sender`: the bot in whose name it is sent; empty: the bot of the channel. `patience`: seconds for which it is sent again
        while the channel cannot be reached. The caller waits for a minute of them at most; returns False if it is sent later.

        Raises `RequestError` for an unknown channel or a chat that may not be written to, and `ProviderError` if the channel
        cannot be reached.
        """
        ...

    async def may_write(self, address: ChatAddress) -> bool:
        """Returns True if the channel may write to the chat: the settings name it, or its person is paired. Raises `RequestError`
        for an unknown channel."""
        ...

    def is_group(self, address: ChatAddress) -> bool:
        """Returns True if the address is a chat of several people."""
        ...


class PersonaFiles(Protocol):
    """The markdown files of bots, with all their versions."""

    async def read(self, key: PersonaKey, path: str) -> PersonaFile | None:
        """Returns the newest version of a file; None: there is no such file, or it is deleted."""
        ...

    async def read_many(self, key: PersonaKey, paths: Iterable[str]) -> Mapping[str, PersonaFile]:
        """Returns the newest versions of those of the files that exist, by path. Far cheaper than the same number of `read`."""
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
        """Returns the messages of a chat, the oldest first. `after`: skips that number of messages; a negative number leaves
        only the last ones, as in a slice. Messages that are skipped are not read."""
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
