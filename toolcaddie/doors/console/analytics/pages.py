"""The pages of analytics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from toolcaddie.app.build import Assembled
from toolcaddie.core.errors import RequestError
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.doors.console.analytics.newest import RUNS_READ, proposals_of
from toolcaddie.doors.console.analytics.suggesting import LEAST_CALLS, LEAST_SENT, LEAST_TIMES, suggestions_of
from toolcaddie.doors.console.analytics.tallies import LISTS, CategoryUse, Tallies, Uses, tallies_of, uses_of
from toolcaddie.doors.console.answers import Answer
from toolcaddie.doors.console.catalog.knowing import readable_view
from toolcaddie.doors.console.figures import WORDS, Period, period_of
from toolcaddie.doors.console.rendering import Renderer
from toolcaddie.doors.console.requests import HOME, Visit
from toolcaddie.doors.console.sections import PageRoute, Section
from toolcaddie.evaluation.recorded import read_log
from toolcaddie.evaluation.report.svg import Row, Whisker, dots, nice
from toolcaddie.guards.aside import aside
from toolcaddie.util.bounded import Bounded

PATH = f"{HOME}analytics"
SHOWN = 10
"""The largest number of rows of each list on the first page."""
PAGE = 100
"""Number of rows on a page of one list."""
_CACHED = 4
_Key = tuple[str, str | None, int]
"""A period, a tenant, and how far the trail has been counted."""
_DRAWN = 8
"""The largest number of categories in the chart."""


def analytics_section(parts: Assembled, *, clock: Callable[[], float] = time.time) -> Section:
    """Returns the section."""
    return Section(
        title="Analytics",
        path=PATH,
        routes=lambda renderer: _Analytics(parts, renderer, clock).routes,
        level="viewer",
        needs_catalog=True,
    )


class _Analytics:
    def __init__(self, parts: Assembled, renderer: Renderer, clock: Callable[[], float]) -> None:
        self._parts = parts
        self._figures = parts.database.figures
        self._renderer = renderer
        self._clock = clock
        self._uses: Bounded[_Key, Uses] = Bounded(_CACHED)
        self._tallies: Bounded[tuple[_Key, str], Tallies] = Bounded(_CACHED)
        """Lists of those who may read about all tools, by the version of the catalog too. Only the thread aside uses them."""

    @property
    def routes(self) -> Sequence[PageRoute]:
        return (
            PageRoute(method="GET", path=PATH, handle=self._show),
            PageRoute(method="GET", path=f"{PATH}/newest", handle=self._newest),
            PageRoute(method="GET", path=f"{PATH}/{{name}}", handle=self._list),
        )

    async def _show(self, visit: Visit) -> Answer:
        period = period_of(visit, self._clock())
        (requests,) = await self._figures.days("requests", [period.name], visit.tenant)
        key, uses = await self._read(visit, period)
        data = await aside(self._summary, visit, key, uses, requests.number)
        data |= {"period": period, "progress": await self._figures.progress()}
        return self._page("analytics/page.html", visit, data, period)

    async def _read(self, visit: Visit, period: Period) -> tuple[_Key, Uses]:
        """Returns the sums of a period. They are read again when more of the trail has been counted."""
        key = period.name, visit.tenant, (await self._figures.progress()).position
        uses = self._uses.get(key)
        if uses is None:
            uses = await uses_of(self._figures, period.name, visit.tenant)
            self._uses.put(key, uses)
        return key, uses

    def _summary(self, visit: Visit, key: _Key, uses: Uses, requests: int) -> dict[str, Any]:
        view = readable_view(self._parts.runtime, visit)
        selector = self._parts.runtime.desk(principal=visit.person).selector
        tallies, all_uses = self._tallies_of(visit, key, uses), uses["tools"].values()
        may_change = visit.tenant is None
        return {
            "requests": requests,
            "sent": sum(use.sent for use in all_uses),
            "calls": sum(use.number for use in all_uses),
            "failed": sum(use.failed for use in all_uses),
            "totals": {name: len(getattr(tallies, name)) for name in LISTS},
            **{name: getattr(tallies, name)[:SHOWN] for name in LISTS},
            "suggestions": suggestions_of(
                tallies, view, selector, self._parts.settings, requests=requests, may_change=may_change
            ),
        }

    async def _list(self, visit: Visit) -> Answer:
        """Shows a page of one list, from behind the name that the address has."""
        name, period = visit.part, period_of(visit, self._clock())
        if name not in LISTS:
            raise RequestError(f"there is no list {name[:64]!r} of analytics", code="unknown_page")
        key, uses = await self._read(visit, period)
        tallies = await aside(self._tallies_of, visit, key, uses)
        rows, after = getattr(tallies, name), visit.request.query.get("after", "")
        first = next((place + 1 for place, row in enumerate(rows) if row.name == after), 0) if after else 0
        page = rows[first : first + PAGE]
        data = {
            "list": name,
            "rows": page,
            "total": len(rows),
            "next": page[-1].name if first + PAGE < len(rows) else None,
            "sent": sum(use.sent for use in uses["tools"].values()),
            "calls": sum(use.number for use in uses["tools"].values()),
            "period": period,
        }
        return self._page("analytics/list.html", visit, data, period, is_later=bool(first))

    def _tallies_of(self, visit: Visit, key: _Key, uses: Uses) -> Tallies:
        view = readable_view(self._parts.runtime, visit)
        if visit.tenant is not None:  # then the view depends on the person
            return tallies_of(uses, view)
        tallies = self._tallies.get((key, view.catalog.version))
        if tallies is None:
            tallies = tallies_of(uses, view)
            self._tallies.put((key, view.catalog.version), tallies)
        return tallies

    async def _newest(self, visit: Visit) -> Answer:
        log = await read_log(self._parts.event_log, limit=RUNS_READ, tenant=visit.tenant)
        proposals = await aside(lambda: proposals_of(log, readable_view(self._parts.runtime, visit)))
        return self._page("analytics/newest.html", visit, {"proposals": proposals, "unread": log.unread})

    def _page(
        self, template: str, visit: Visit, data: dict[str, Any], period: Period | None = None, **words: Any
    ) -> Answer:
        places = set(visit.titles.values())
        return self._renderer.page(
            template,
            visit,
            data,
            path=PATH,
            list_query="" if period is None else f"?period={period.word}",
            places={name: f"{HOME}{name}" if f"{HOME}{name}" in places else "" for name in ("runs", "catalog")},
            least={"sent": LEAST_SENT, "calls": LEAST_CALLS, "times": LEAST_TIMES},
            searching=(REQUEST_MORE_TOOLS, SEARCH_TOOLS),
            runs_read=RUNS_READ,
            categories_chart=categories_chart,
            **WORDS,
            **words,
        )


def categories_chart(
    uses: Sequence[CategoryUse], sent: int, calls: int, names: tuple[str, str], none: str, label: str
) -> Markup:
    """Returns a picture of the categories: their shares of the sent tools and of the calls, in percent.

    `sent`, `calls`: those of all tools. `names`: those of the two shares. `none`: the name of the tools without a category.
    """
    shares = [(use.name or none, (_percent(use.sent, sent), _percent(use.calls, calls))) for use in uses[:_DRAWN]]
    rows = [
        Row(
            label=name,
            whiskers=[
                Whisker(value=value, low=0.0, high=value, series=number, text=f"{name}, {names[number]}: {value:.1f} %")
                for number, value in enumerate(values)
            ],
            note=f"{values[1]:.0f} %",
        )
        for name, values in shares
    ]
    most = max((value for _, values in shares for value in values), default=0.0)
    return Markup(dots(rows, x_range=(0.0, nice(max(most, 1.0))), label=label, series=2))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
