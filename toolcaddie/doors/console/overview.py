"""The section that a person sees first: what happens today, and what happened in the last days."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.figures import WORDS, last_days
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.storage.figures import Figures

PATH = f"{HOME}overview"
_FEW = 5


def overview_section(parts: Assembled, *, clock: Callable[[], float] = time.time) -> Section:
    """Returns the section."""
    figures = parts.database.figures
    return Section(
        title="Overview",
        path=PATH,
        routes=lambda renderer: _Overview(figures, renderer, clock).routes,
        level="viewer",
    )


class _Overview:
    def __init__(self, figures: Figures, renderer: Renderer, clock: Callable[[], float]) -> None:
        self._figures = figures
        self._renderer = renderer
        self._clock = clock

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (PageRoute(method="GET", path=PATH, handle=self._show),)

    async def _show(self, visit: Visit) -> Answer:
        figures, tenant = self._figures, visit.tenant
        days = await figures.days("requests", last_days(self._clock()), tenant)
        today = days[-1]
        data = {
            "today": today,
            "days": days,
            "waiting": await figures.waiting(tenant),
            "tools": await figures.names("tools", today.period, tenant, most=_FEW),
            "failing": await figures.names("tools", today.period, tenant, by="failed", most=_FEW),
            "progress": await figures.progress(),
        }
        paths = set(visit.titles.values())
        addresses = {name: f"{HOME}{name}" for name in ("runs", "approvals", "costs")}
        links = {name: address if address in paths else "" for name, address in addresses.items()}
        return self._renderer.page("overview/page.html", visit, data, links=links, **WORDS)
