"""Draws numbers by day as columns, for the pages of the console. Classes are those of `svg`."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.evaluation.report.markup import escape
from toolcaddie.evaluation.report.svg import WIDTH, nice, picture, short_number, text_at, ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 8.0, 10.0, 24.0
_LABELS = 6
"""Number of days that are named below the columns."""


def by_day(
    days: Sequence[str], groups: Sequence[tuple[str, Sequence[float]]], *, label: str, height: float = 190.0
) -> str:
    """Returns a plot with a column for each day, in which the numbers of the groups stand on each other.

    `groups`: name and the number of each day; the place of a group is the number of its colour. `label`: what a screen reader
    says.
    """
    totals = [sum(numbers) for numbers in zip(*(numbers for _, numbers in groups), strict=True)]
    top = nice(max(totals, default=0.0)) if any(totals) else 1.0
    base, step = height - _BOTTOM, (WIDTH - _LEFT - _RIGHT) / max(1, len(days))
    parts = []
    for value in ticks(0.0, top):
        at = base - value / top * (base - _TOP)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(text_at(_LEFT - 8, at + 4, short_number(value), "tick end"))
    named = max(1, -(-len(days) // _LABELS))
    for place, day in enumerate(days):
        left, below = _LEFT + step * place, base
        for colour, (name, numbers) in enumerate(groups):
            size = numbers[place] / top * (base - _TOP)
            if size <= 0:
                continue
            below -= size
            title = escape(f"{day} {name}: {short_number(numbers[place])}")
            parts.append(
                f'<rect class="bar s{colour % 6}" x="{left + 1:.1f}" y="{below:.1f}" width="{max(0.5, step - 2):.1f}" '
                f'height="{size:.1f}"><title>{title}</title></rect>'
            )
        if (len(days) - 1 - place) % named == 0:
            parts.append(text_at(left + step / 2, height - 8, day[5:], "tick middle"))
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>')
    return picture("".join(parts), height, label)
