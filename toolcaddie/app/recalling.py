"""Lets bots remember: what fits a message is looked up in their memory before they answer."""

from __future__ import annotations

from toolcaddie.app.box import names_source
from toolcaddie.app.settings import Settings
from toolcaddie.bots.requests import Recall, Recalled, nothing_recalled
from toolcaddie.core.bots import BotWork
from toolcaddie.core.content import text_of
from toolcaddie.core.personas import PersonaKey
from toolcaddie.engine.prompt import memory_message
from toolcaddie.parts import Parts
from toolcaddie.tools import memory

SOURCE = "memory"


def recall_of(settings: Settings, parts: Parts) -> Recall:
    """Returns what looks up memories; it finds none if the settings have no source `memory`, or one that does not search."""
    searches = all(part.config.get("search", True) for part in settings.source if part.type == SOURCE)
    if not names_source(settings, SOURCE) or not searches or parts.personas is None or parts.chats is None:
        return nothing_recalled
    memories = memory.recall_of(parts)

    async def recall(work: BotWork) -> Recalled:
        name = work.principal.bot or ""
        key = PersonaKey(tenant=work.principal.tenant, bot=name)
        person = f"{work.principal.tenant}/{work.principal.id}"
        fitting = await memories.context_for(key, person, work.chat, text_of(work.message))
        bot = settings.bots.get(name)
        return Recalled(text=memory_message(fitting, "en" if bot is None else bot.language), was_searched=True)

    return recall
