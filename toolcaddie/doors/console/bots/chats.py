"""The stored chats of a bot: their list, and the messages of one, the last ones first to be seen."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.bots import ChatKey
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.bots.desk import ONE, BotDesk, field, number_of, tenant_of
from toolcaddie.doors.console.requests import Visit
from toolcaddie.doors.console.sections import PageRoute
from toolcaddie.personas.names import checked_chat

_CHATS_SHOWN = 50
_MESSAGES_SHOWN = 50


def chat_routes(desk: BotDesk) -> Sequence[PageRoute]:
    """Returns the pages."""

    async def chats(visit: Visit) -> Answer:
        shelf = desk.shelf(visit)
        cursor = visit.request.query.get("after") or None
        names, following = await shelf.chats.page(shelf.key.tenant, shelf.key.bot, cursor=cursor, limit=_CHATS_SHOWN)
        return desk.page("chats", visit, {"chats": names, "next": following})

    async def chat(visit: Visit) -> Answer:
        name = checked_chat(field(visit, "name"))
        back = number_of(visit.request.query.get("back", "0"), "back")
        key = ChatKey(tenant=tenant_of(visit), bot=desk.bot(visit), chat=name)
        turns = await desk.shelf(visit).chats.turns(key, after=-(back + _MESSAGES_SHOWN + 1))
        has_older = len(turns) > back + _MESSAGES_SHOWN
        shown = turns[1 if has_older else 0 : len(turns) - back]
        return desk.page(
            "chat",
            visit,
            {"chat": name, "messages": shown, "older": back + _MESSAGES_SHOWN if has_older else None, "back": back},
            newer=max(0, back - _MESSAGES_SHOWN),
        )

    return (
        PageRoute(method="GET", path=f"{ONE}/chats", handle=chats),
        PageRoute(method="GET", path=f"{ONE}/chat", handle=chat),
    )
