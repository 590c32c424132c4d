"""The section of costs: by tool, model, API key, bot and day, and what other strategies of delivery would have cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolcaddie.app.build import Assembled
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.figures import WORDS, last_days, period_of
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.storage.figures import Figure, Figures
from toolcaddie.storage.sums import LONGEST_NAME, WHOLE, Topic

PATH = f"{HOME}costs"
_MANY, _FEW = 50, 20


def costs_section(parts: Assembled, *, clock: Callable[[], float] = time.time) -> Section:
    """Returns the section."""
    figures = parts.database.figures
    return Section(
        title="Costs", path=PATH, routes=lambda renderer: _Costs(figures, renderer, clock).routes, level="viewer"
    )


class _Costs:
    def __init__(self, figures: Figures, renderer: Renderer, clock: Callable[[], float]) -> None:
        self._figures = figures
        self._renderer = renderer
        self._clock = clock

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (PageRoute(method="GET", path=PATH, handle=self._show),)

    async def _show(self, visit: Visit) -> Answer:
        figures, tenant = self._figures, visit.tenant
        period, days = period_of(visit, self._clock()), last_days(self._clock())
        tool = visit.request.query.get("tool", "")[:LONGEST_NAME]
        requests = await figures.days("requests", [period.name], tenant)
        data = {
            "period": period,
            "total": requests[0],
            "tools": await self._dearest("tools", period.name, tenant, _MANY),
            "models": await self._dearest("models", period.name, tenant, _FEW),
            "bots": await self._dearest("bots", period.name, tenant, _FEW),
            "keys": (await figures.keys(period.first, period.last, tenant))[:_MANY],
            "days": await figures.days("requests", days, tenant),
            "strategies": await figures.names("strategies", period.name, tenant),
            "tool": tool,
            "tool_days": await figures.days("tools", days, tenant, name=tool) if tool else [],
        }
        return self._renderer.page("costs/page.html", visit, data, path=PATH, whole_catalog=WHOLE, **WORDS)

    async def _dearest(self, topic: Topic, period: str, tenant: str | None, most: int) -> Sequence[Figure]:
        """Returns the names that cost most. Where no price is known, those with the most tokens."""
        names = await self._figures.names(topic, period, tenant, by="money", most=most)
        return names or await self._figures.names(topic, period, tenant, by="input_tokens", most=most)
