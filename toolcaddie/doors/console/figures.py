"""Parts that the pages of figures have in common: periods, and how numbers, money and charts are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from toolcaddie.core.key_limits import BILLION
from toolcaddie.doors.console.requests import Visit
from toolcaddie.evaluation.report.by_day import by_day
from toolcaddie.storage.figures import Figure
from toolcaddie.storage.sums import ALWAYS

DAYS_SHOWN = 30
_MONTH = 7
"""Characters of a month in a day: `2026-11`."""
_CENTS = 100_000_000
"""Billionths of a US dollar from which two digits are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days whose figures a page shows."""

    word: str
    """Its word in the address: `day`, `month` or `all`."""
    name: str
    """Its name among the figures."""
    first: str
    last: str


def period_of(visit: Visit, now: float) -> Period:
    """Returns the period that the address names; this month, if it names none."""
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    match visit.request.query.get("period", ""):
        case "day":
            return Period(word="day", name=today, first=today, last=today)
        case "all":
            return Period(word="all", name=ALWAYS, first="", last=today)
        case _:
            return Period(word="month", name=today[:_MONTH], first=f"{today[:_MONTH]}-01", last=today)


def last_days(now: float) -> Sequence[str]:
    """Returns the last days, today at the end."""
    today = datetime.fromtimestamp(now, UTC).date()
    return [(today - timedelta(days=number)).isoformat() for number in reversed(range(DAYS_SHOWN))]


def dollars(billionths: int) -> str:
    """Returns money as people read it, with more digits for small amounts."""
    digits = 2 if billionths >= _CENTS or not billionths else 6
    return f"${billionths / BILLION:,.{digits}f}"


def whole(number: int) -> str:
    return f"{number:,}"


def share(part: float, all_parts: float) -> str:
    return f"{part / all_parts:.0%}" if all_parts else "0%"


def chart(days: Sequence[Figure], groups: Mapping[str, Callable[[Figure], float]], label: str) -> Markup:
    """Returns a picture of figures by day. `groups`: the numbers that stand on each other, by their names."""
    values = [(name, [number_of(day) for day in days]) for name, number_of in groups.items()]
    return Markup(by_day([day.period for day in days], values, label=label))


def requests_chart(days: Sequence[Figure], good: str, bad: str, label: str) -> Markup:
    return chart(days, {good: lambda day: max(0, day.number - day.failed), bad: lambda day: day.failed}, label)


def calls_chart(days: Sequence[Figure], name: str, label: str) -> Markup:
    return chart(days, {name: lambda day: day.number}, label)


def tokens_chart(days: Sequence[Figure], name_in: str, name_out: str, label: str) -> Markup:
    return chart(days, {name_in: lambda day: day.input_tokens, name_out: lambda day: day.output_tokens}, label)


def money_chart(days: Sequence[Figure], name: str, label: str) -> Markup:
    return chart(days, {name: lambda day: day.money / BILLION}, label)


WORDS: Mapping[str, Any] = {
    "dollars": dollars,
    "whole": whole,
    "share": share,
    "requests_chart": requests_chart,
    "calls_chart": calls_chart,
    "tokens_chart": tokens_chart,
    "money_chart": money_chart,
}
"""Functions that the templates of these pages may call."""
