"""The conversations of `toolcaddie chat`: with a bot one that is stored, otherwise one that ends with the command.

A stored one is a chat of the bot, as those of channels are: its messages are read again after a restart, and are part of what the
bot can search. `/new` begins another one under the same name, as it does in channels.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Protocol
from urllib.parse import quote

import click
import msgspec

from toolcaddie.app.build import Assembled
from toolcaddie.core.bots import BotWork, ChatKey, chat_name
from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.doors.channels.histories import Histories
from toolcaddie.doors.texts import local_time
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.user import user_name

MAIN = "main"
"""The chat of a person who names none."""

_CHANNEL = "chat"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WAITING = "terminal-waiting"
"""Kind of the documents with messages whose runs wait for a person; the key is the id of the run."""
_TTL_SECONDS = 90 * 86_400.0


class Conversation(Protocol):
    """A conversation between the person at the terminal and the model."""

    def opening(self) -> str:
        """Returns a sentence about what was said before; empty: nothing was."""
        ...

    def request(self, text: str) -> RunRequest:
        """Returns the request of the run that answers a message."""
        ...

    def keep(self, result: RunResult) -> None:
        """Adds the message of the last request, and its answer."""
        ...

    def postpone(self) -> None:
        """Notes that the run of the last request waits for a person. `keep_resumed` adds message and answer later."""
        ...

    def begin(self) -> None:
        """Begins a new conversation, without messages."""
        ...


class PassingConversation:
    """Implements `Conversation` in this process alone."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._asked: tuple[Message, ...] = ()
        self.begin()

    def opening(self) -> str:
        return ""

    def request(self, text: str) -> RunRequest:
        self._asked = (*self._messages, Message(role="user", content=text))
        return RunRequest(messages=self._asked, conversation=self._name, principal=Principal(channel=_CHANNEL))

    def keep(self, result: RunResult) -> None:
        self._messages = (*self._asked, *result.messages)

    def postpone(self) -> None:
        """Notes nothing: the message is not part of the conversation."""

    def begin(self) -> None:
        self._messages = self._asked = ()
        self._name = uuid.uuid4().hex


class StoredConversation:
    """Implements `Conversation` with a chat of a bot in the database. `name`: the name of the chat. Each user of this machine has
    chats of their own."""

    def __init__(self, runner: asyncio.Runner, parts: Assembled, *, bot: str, name: str = MAIN) -> None:
        self._runner = runner
        self._talk = parts.work.bots.talk
        self._store = parts.documents
        self._histories = Histories(parts.documents)
        self._principal = Principal(bot=bot, channel=_CHANNEL)
        # No channel of the settings has an @ in its name, so none has the same chats.
        self._place = f"terminal@{quote(user_name(), safe='')}"
        self._name = name
        self._work = BotWork(id="", principal=self._principal, message="")

    def opening(self) -> str:
        key = ChatKey(tenant=self._principal.tenant, bot=self._principal.bot or "", chat=self._chat())
        turns = self._runner.run(self._talk.chats.turns(key, after=-1))
        if not turns:
            return ""
        return f"this goes on with your chat {self._name}, last used {local_time(turns[-1].at)}; /new begins another"

    def request(self, text: str) -> RunRequest:
        self._work = BotWork(id=f"run_{random_id()}", principal=self._principal, message=text, chat=self._chat())
        return self._runner.run(self._talk.request(self._work))

    def keep(self, result: RunResult) -> None:
        self._runner.run(self._talk.ended(self._work, result))

    def postpone(self) -> None:
        document = msgspec.json.encode(self._work)
        self._runner.run(self._store.put(_WAITING, self._work.id, document, ttl=_TTL_SECONDS))

    def begin(self) -> None:
        self._runner.run(self._histories.begin(self._place, self._key))

    @property
    def _key(self) -> str:
        return f"{self._principal.bot}/{self._name}"

    def _chat(self) -> str:
        """Returns the name under which the present conversation is stored."""
        number = self._runner.run(self._histories.number(self._place, self._key))
        name = chat_name(self._place, self._name, group=False)
        return f"{name}#{number}" if number else name


async def keep_resumed(parts: Assembled, result: RunResult) -> None:
    """Adds a message and its answer to their chat, if the run that has ended is one that a chat postponed."""
    document = await parts.documents.get(_WAITING, result.run_id)
    if document is not None:
        await parts.work.bots.talk.ended(msgspec.json.decode(document, type=BotWork), result)
        await parts.documents.delete(_WAITING, result.run_id)


def _checked_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Checks the value of `--chat`."""
    if value is not None and _NAME.fullmatch(value) is None:
        raise click.BadParameter(
            f"{value[:64]!r} must be of 1 to 64 letters, digits, dots, - and _, beginning with a letter or digit"
        )
    return value


chat_option = click.option(
    "--chat",
    "name",
    metavar="NAME",
    callback=_checked_name,
    help=f"Chat with the bot that goes on, if you have several. [default: {MAIN}]",
)
new_option = click.option("--new", "is_new", is_flag=True, help="Begin a new conversation, as /new does.")
