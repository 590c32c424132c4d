"""Bots are personas with tools that answer people and each other. This file has their modes, their groups of tools, and the
values that pass between a bot and whoever asks it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from toolcaddie.core.content import Content
from toolcaddie.core.control import Principal
from toolcaddie.core.usage import Usage

Mode = Literal["conversation", "collaboration", "autonomous"]
"""Why a bot runs: a person talks to it, another bot does, or nobody does (a schedule, its own goals)."""

MODES: tuple[Mode, ...] = get_args(Mode)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "web": ("web_search", "web_fetch"),
    "soul": ("save_memory", "update_soul", "update_identity"),
    "goals": ("manage_goals",),
    "exec": ("exec",),
    "files": ("file_read", "file_write", "file_edit"),
    "process": ("process",),
    "memory": ("memory_search", "memory_get"),
    "datetime": ("get_datetime",),
    "phone": ("phone_call",),
    "cron": ("cron",),
    "delegation": ("delegate_to_bot",),
    "collaboration": ("collaborate",),
    "create_tool": ("create_tool",),
    "improve": ("improve",),
}
"""Groups of the built-in tools of bots, in the order in which the system prompt speaks of them."""

GROUP_OF: Mapping[str, str] = {name: group for group, names in GROUPS.items() for name in names}
"""The group of each built-in tool."""

BEGINS_RUNS = "begins_runs"
"""Tag of tools whose calls begin runs of other bots. They are made one after another, because each may use the rest of the run's
budget."""

MAX_DEPTH = 2
"""The largest number of bots above a run: a bot may ask another, which may ask a third, which may ask nobody."""


class Inherited(Struct, frozen=True, kw_only=True):
    """The limits that a run has from the run, or the job, that began it. A run that a person begins inherits nothing."""

    lineage: tuple[str, ...] = ()
    """The bots that called one another down to this run, the outermost first, without the run's own bot."""
    tools: tuple[str, ...] | None = None
    """Only tools with these names exist for the run, in addition to every other restriction; None: any tool may."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the text of the request may contain."""
    calls: int | None = None
    """Tool calls that are left for the run and all runs below it; None: only the limits of the preset hold."""
    tokens: int | None = None
    seconds: float | None = None


NOTHING_INHERITED = Inherited()


class BotCard(Struct, frozen=True, kw_only=True):
    """A bot as other bots and people may see it."""

    name: str
    description: str = ""
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Names of the tools that it has when another bot asks it, as far as the asker may use them too."""
    model: str = ""


class ChatAddress(Struct, frozen=True, kw_only=True):
    """A chat in a channel, to which messages can be sent."""

    channel: str
    """Name of the channel in the settings."""
    chat: str
    """The channel's own id of the chat."""


CHAT_ID = "_chatId"
"""Name of the injected argument with the chat of a channel in which a run takes place, as `CHANNEL:CHAT`. Only the host injects
it, so nobody reaches a chat whose name a request merely mentions."""


def injected_chat(address: ChatAddress) -> str:
    """Returns the value of the injected argument for a chat."""
    return f"{address.channel}:{address.chat}"


def chat_of(injected: Mapping[str, Any]) -> ChatAddress | None:
    """Returns the chat that the injected arguments of a run name; None: the run takes place in none."""
    channel, _, chat = str(injected.get(CHAT_ID, "")).partition(":")
    return ChatAddress(channel=channel, chat=chat) if channel and chat else None


class BotWork(Struct, frozen=True, kw_only=True):
    """A message for a bot, with everything that is needed to answer it in any process."""

    id: str
    """The id of its run. The same id never runs twice: asked again, the answer of the first run is returned."""
    principal: Principal
    """The person for whom the bot works; `bot` names the bot."""
    message: Content
    """A text, or blocks such as a text and a picture."""
    mode: Mode = "conversation"
    chat: str = ""
    """Name of the chat whose history the bot reads, and to which message and answer are added; empty: there is none."""
    inherited: Inherited = NOTHING_INHERITED
    reply_to: ChatAddress | None = None
    """The chat to which the answer is sent; None: only the asker gets it."""


class BotAnswer(Struct, frozen=True, kw_only=True):
    """The end of a bot's work. With status `pending` a call waits for a person; the answer then comes later."""

    run_id: str
    status: Literal["completed", "pending", "failed"]
    text: str
    usage: Usage = Usage()
    calls: int = 0
    taint: tuple[str, ...] = ()


class ChatTurn(Struct, frozen=True, kw_only=True):
    """A message of a stored chat."""

    role: Literal["user", "assistant", "summary"]
    """`summary`: stands for older messages, which are no longer sent to the model."""
    text: str
    at: float
    """Seconds since the epoch."""
    who: str = ""
    """The person, or the bot, who wrote it; of a group, the name that others read."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the writer had read."""
    key: str = ""
    """Id of the message in its channel, or of the run that answered it; the same key is added once."""
    keeps: int = 0
    """For a summary: the number of messages right before it that are still sent; it stands for all others before it."""


class ChatKey(Struct, frozen=True, kw_only=True):
    """The identity of a stored chat: of one bot of one tenant, under a name."""

    tenant: str
    bot: str
    chat: str


_GROUP_CHAT = "group:"
_PLAIN_CHAT = re.compile(r"[A-Za-z0-9_.@+-]{1,128}")
"""Ids of chats that stand in names as they are."""
_CONVERSATION_NUMBER = re.compile(r"#\d+\Z")


def chat_name(channel: str, chat: str, *, group: bool) -> str:
    """Returns the name under which a chat of a channel is stored: `CHANNEL:CHAT`, and of several people `CHANNEL:group:CHAT`. An
    id with other characters, which could imitate a group or a later conversation, is replaced by its digest."""
    known = chat if _PLAIN_CHAT.fullmatch(chat) else f"~{hashlib.sha256(chat.encode()).hexdigest()}"
    return f"{channel}:{_GROUP_CHAT if group else ''}{known}"


def is_group_chat(name: str) -> bool:
    """Returns True if several people read the chat of this name."""
    return name.partition(":")[2].startswith(_GROUP_CHAT)


def chat_origin(name: str) -> str:
    """Returns the name of the first conversation in the same place: `tg:42#2` is the second new conversation in `tg:42`."""
    return _CONVERSATION_NUMBER.sub("", name)


def names_in(groups: Sequence[str]) -> frozenset[str]:
    """Returns the names of all tools of these groups. Raises `KeyError` for an unknown group."""
    return frozenset(name for group in groups for name in GROUPS[group])


def line_problem(lineage: Sequence[str], bot: str) -> str:
    """Returns why a bot may not run below these others, the outermost first: it is one of them, or there are too many. Empty: it
    may."""
    if lineage and bot == lineage[-1]:
        return f"{bot} cannot ask itself"
    if bot in lineage:
        return f"{bot} is already at work on this: {' asked '.join((*lineage, bot))}"
    if len(lineage) > MAX_DEPTH:
        return f"{' asked '.join(lineage)}, and no further bot may be asked"
    return ""
