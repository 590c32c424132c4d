"""Makes the request of a run from a piece of work: the chat so far, what the bot remembers, and the message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from toolcaddie.bots.history import History
from toolcaddie.core.bots import CHAT_ID, BotWork, ChatKey, Inherited, injected_chat
from toolcaddie.core.content import text_of
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.util.replacing import replace


class Recalled(Struct, frozen=True, kw_only=True):
    """What a bot remembers that fits a message."""

    text: str = ""
    """A message for the model; empty: nothing fits."""
    was_searched: bool = False
    """False: the bot has no memory that could be searched."""


Recall = Callable[[BotWork], Awaitable[Recalled]]
"""Looks up what a bot remembers that fits a piece of work."""


async def nothing_recalled(work: BotWork) -> Recalled:
    """Recalls nothing, for bots without memory."""
    return Recalled()


def chat_key(work: BotWork) -> ChatKey:
    """Returns the chat of a piece of work. Raises `RequestError` if it names no bot."""
    if work.principal.bot is None:
        raise RequestError("the work names no bot", param="bot", code="unknown_bot")
    return ChatKey(tenant=work.principal.tenant, bot=work.principal.bot, chat=work.chat)


def request_of(work: BotWork, history: History, recalled: Recalled, *, durable: bool) -> RunRequest:
    """Returns the request. What was recalled stands right before the message, so that everything before it stays the same from
    turn to turn, and the provider's cache holds."""
    memory = [Message(role="system", content=recalled.text)] if recalled.text else []
    return RunRequest(
        messages=[*history.messages(), *memory, Message(role="user", content=work.message)],
        principal=work.principal,
        conversation=work.chat or None,
        window=history.window,
        mode=work.mode,
        inherited=_with_taint(work.inherited, history),
        run_id=work.id,
        injected=_injected(work),
        recalled=recalled.was_searched,
        durable=durable,
    )


def shown_message(work: BotWork) -> str:
    """Returns the text of a message as it is stored in its chat."""
    return text_of(work.message) or "[a message without text]"


def _injected(work: BotWork) -> dict[str, str]:
    """Returns the arguments that every call of the run is given: the bot, and the chat of a channel in which it takes place."""
    injected = {"_botId": work.principal.bot or ""}
    if work.reply_to is not None:
        injected[CHAT_ID] = injected_chat(work.reply_to)
    return injected


def _with_taint(inherited: Inherited, history: History) -> Inherited:
    taint = tuple(dict.fromkeys((*inherited.taint, *history.taint)))
    return inherited if taint == inherited.taint else replace(inherited, taint=taint)
