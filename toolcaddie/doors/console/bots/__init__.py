"""The section of bots: settings, persona files with versions, memory, chats, jobs, and proposals of reviews."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.doors.console.bots.chats import chat_routes
from toolcaddie.doors.console.bots.desk import PATH, BotDesk
from toolcaddie.doors.console.bots.jobs import job_routes
from toolcaddie.doors.console.bots.memory import memory_routes
from toolcaddie.doors.console.bots.overview import overview_routes
from toolcaddie.doors.console.bots.persona import persona_routes
from toolcaddie.doors.console.bots.proposals import proposal_routes
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.sections import PageRoute, Section


def bots_section(parts: Assembled) -> Section:
    """Returns the section."""

    def routes(renderer: Renderer) -> Sequence[PageRoute]:
        desk = BotDesk(parts, renderer)
        return (
            *overview_routes(desk),
            *persona_routes(desk),
            *memory_routes(desk),
            *chat_routes(desk),
            *job_routes(desk),
            *proposal_routes(desk),
        )

    return Section(title="Bots", path=PATH, routes=routes, level="viewer", needs_bot=False)


__all__ = ["bots_section"]
