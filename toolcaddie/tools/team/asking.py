"""The work that one bot gives to another: within what the asker may do and has left, and never in a circle."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, ChatAddress, Inherited, line_problem
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import CLIENT_SOURCE, Spent, ToolResult, failed
from toolcaddie.guards.markers import marked, neutral
from toolcaddie.ports import BotRunner
from toolcaddie.tools.team.definitions import CALL_KEY
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

_MARGIN = 2.0
"""Seconds that stay between the end of an answer and that of the call that waits for it."""
_LEAST = 1.0
"""Seconds below which it is not worth to begin."""


def tools_of(context: RunContext) -> tuple[str, ...]:
    """Returns the names of the tools that the asker may use, and so may pass on. Those of its client stay with the client."""
    return tuple(tool.name for tool in context.view if tool.source != CLIENT_SOURCE)


def asked_bot(bots: BotRunner, context: RunContext, target: str) -> BotCard:
    """Returns the bot to ask. Raises `RequestError` if this bot may not ask it, and names those that it may."""
    lineage = (*context.inherited.lineage, own_bot(context))
    if problem := line_problem(lineage, target):
        raise RequestError(problem, param="targetBotId")
    cards = {card.name: card for card in bots.cards(context.principal, tools_of(context))}
    if target not in cards:
        raise RequestError(f"there is no bot {target[:64]!r}; {did_you_mean(target, list(cards))}", param="targetBotId")
    return cards[target]


def own_bot(context: RunContext) -> str:
    """Returns the bot that asks. Raises `RequestError` for a request that is none of a bot."""
    if context.principal.bot is None:
        raise RequestError("only a bot may ask other bots, and this request names none", param="bot")
    return context.principal.bot


def work_id(arguments: Mapping[str, Any]) -> str:
    """Returns the id of the run inside a call: the same if the call is repeated, so that the run is begun once."""
    key = arguments.get(CALL_KEY)
    return f"run_{str(key).replace('-', '')}" if key else f"run_{random_id()}"


def work_of(
    context: RunContext,
    work: str,
    target: str,
    message: str,
    *,
    tools: Sequence[str],
    seconds: float,
    chat: str = "",
    reply_to: ChatAddress | None = None,
) -> BotWork:
    """Returns the work, with the rest of the asker's budget. Raises `RequestError` if nothing is left of it."""
    left = seconds if context.deadline is None else min(seconds, context.deadline - time.monotonic() - _MARGIN)
    if left < _LEAST or context.tokens_left == 0:
        raise RequestError(
            f"too little {'time' if left < _LEAST else 'of the tokens'} is left to ask {target}", code="limit"
        )
    inherited = Inherited(
        lineage=(*context.inherited.lineage, own_bot(context)),
        tools=tuple(tools),
        taint=context.taint,
        calls=context.calls_left,
        tokens=context.tokens_left,
        seconds=left,
    )
    return BotWork(
        id=work,
        principal=replace(context.principal, bot=target),
        message=f"[{own_bot(context)}]: {neutral(message)}",
        mode="collaboration",
        chat=chat,
        inherited=inherited,
        reply_to=reply_to,
    )


def result_of(answer: BotAnswer, target: str, *, session: str = "", note: str = "") -> ToolResult:
    """Returns the answer of a bot as a result. If that bot has read untrusted content, its words are marked. `session`: the one
    that the answer belongs to; `note`: a sentence behind the answer."""
    spent = Spent(usage=answer.usage, calls=answer.calls, taint=answer.taint)
    text = marked(answer.text) if answer.taint else answer.text
    values = {"bot": target, "run": answer.run_id, "status": answer.status, "answer": text}
    if session:
        values["sessionId"] = session
    if answer.status == "failed":
        return replace(failed(f"{target} could not answer: {text}"), spent=spent, structured=values)
    if answer.status == "pending":
        content = (
            f"{target} has begun and waits for a person, who is asked about one of its calls (run {answer.run_id}). Its answer "
            "is not known yet. Do not ask it the same again; tell the user that a question is open."
        )
        return ToolResult(content=f"{content}{note}", spent=spent, structured=values)
    return ToolResult(content=f"{target} answers:\n{text}{note}", spent=spent, structured=values)
