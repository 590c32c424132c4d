"""Draws the plots of the HTML report as SVG.

Colours are CSS classes of the page (`style.py`), so that plots follow the light or dark mode of the reader. Each configuration
has a number, its series, and `s0` to `s5` are the classes of the colours. Every text in a plot is escaped here, where it
becomes markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolcaddie.evaluation.report.markup import escape

Point = tuple[float, float]

WIDTH = 560.0
"""Width of every plot in SVG units; the page scales the plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line of a plot, with or without a band around it."""

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    """Points of the band, each as x, low and high. Empty: no band."""
    marked: bool = True
    """True if each point of the line has a dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whisker:
    """A value with its interval in a row of `dots`."""

    value: float
    low: float
    high: float
    series: int = 0
    """Number of the colour."""
    text: str = ""
    """Text that appears when the mouse is over it; empty: the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of `dots`."""

    label: str
    whiskers: Sequence[Whisker]
    note: str = ""
    """Text at the right end of the row."""


def lines(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    x_range: Point,
    y_range: Point = (0.0, 1.0),
    marks: Sequence[tuple[Point, str, int]] = (),
    diagonal: bool = False,
    percent: bool = False,
    height: float = 330.0,
) -> str:
    """Returns a plot of lines over a grid.

    `x`, `y`: names of the axes. `marks`: diamonds, each as a point, a text and the number of its series. `diagonal`: draws the
    line of chance. `percent`: shows the y axis in percent.
    """
    frame = _Frame(x_range=x_range, y_range=y_range, height=height, left=52.0, bottom=46.0)
    parts = [frame.grid(x, y, percent=percent)]
    if diagonal:
        parts.append(frame.path([(x_range[0], y_range[0]), (x_range[1], y_range[1])], "chance"))
    for number, each in enumerate(series):
        if each.band:
            up = [(at, high) for at, _, high in each.band]
            down = [(at, low) for at, low, _ in reversed(each.band)]
            parts.append(frame.area([*up, *down], f"band s{number % 6}"))
    for number, each in enumerate(series):
        parts.append(frame.path(each.points, f"line s{number % 6}"))
        if each.marked:
            parts.extend(
                frame.dot(point, f"dot s{number % 6}", f"{each.name}: {short_number(point[0])} → {point[1]:.3f}")
                for point in each.points
            )
    parts.extend(frame.star(point, f"mark s{number % 6}", text) for point, text, number in marks)
    names = [each.name for each in series]
    return picture("".join(parts), height, f"{y} against {x}: {', '.join(names)}")


def dots(
    rows: Sequence[Row],
    *,
    x_range: Point = (0.0, 1.0),
    zero: float | None = None,
    left: float = 170.0,
    label: str,
    series: int = 1,
    signed: bool = False,
) -> str:
    """Returns a plot of rows: each value is a dot, with its interval as a line. The values of a row stand below each other.

    `zero`: draws a line at this value. `left`: room for the labels. `series`: largest number of values in a row. `signed`:
    shows the x axis with signs.
    """
    step, inner = 14.0 * max(1, series) + 12.0, 14.0
    height = 12.0 + step * len(rows) + 34.0
    frame = _Frame(x_range=x_range, y_range=(0.0, 1.0), height=height, left=left, bottom=34.0, right=64.0)
    parts = [frame.columns(signed=signed)]
    if zero is not None:
        parts.append(
            f'<line class="zero" x1="{frame.x(zero):.1f}" x2="{frame.x(zero):.1f}" y1="8" y2="{height - 34:.1f}"/>'
        )
    for number, row in enumerate(rows):
        top = 12.0 + step * number
        middle = top + (step - 12.0) / 2
        parts.append(text_at(left - 10, middle + 4, _cut(row.label, left), "label end", full=row.label))
        if row.note:
            parts.append(text_at(WIDTH - 4, middle + 4, row.note, "tick end"))
        for place, whisker in enumerate(row.whiskers):
            parts.append(frame.whisker(whisker, top + inner * (place + 0.5)))
    return picture("".join(parts), height, label)


def bars(
    groups: Sequence[tuple[str, int, Sequence[float]]], edges: Sequence[float], *, x: str, y: str, height: float = 300.0
) -> str:
    """Returns a plot of histograms that overlap. `groups`: name, number of the colour, and share in each bin. `edges`: those of
    the bins."""
    top = max((value for _, _, values in groups for value in values), default=1.0) or 1.0
    frame = _Frame(x_range=(edges[0], edges[-1]), y_range=(0.0, nice(top)), height=height, left=52.0, bottom=46.0)
    parts = [frame.grid(x, y, percent=True)]
    for name, colour, values in groups:
        for low, high, value in zip(edges, edges[1:], values, strict=False):
            x0, x1, y0, y1 = frame.x(low), frame.x(high), frame.y(0.0), frame.y(value)
            title = escape(f"{name}: {value:.1%} between {low:.2f} and {high:.2f}")
            parts.append(
                f'<rect class="bar s{colour}" x="{x0 + 1:.1f}" y="{y1:.1f}" width="{max(0.5, x1 - x0 - 2):.1f}" '
                f'height="{max(0.0, y0 - y1):.1f}"><title>{title}</title></rect>'
            )
    return picture("".join(parts), height, f"{y} by {x}")


# --- the frame ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The area of a plot with its axes. `x` and `y` turn values into places; the other methods return markup."""

    x_range: Point
    y_range: Point
    height: float
    left: float
    bottom: float
    right: float = 16.0
    top: float = 12.0

    def x(self, value: float) -> float:
        """Returns the horizontal place of a value."""
        low, high = self.x_range
        share = (value - low) / (high - low) if high > low else 0.5
        return self.left + min(1.0, max(0.0, share)) * (WIDTH - self.left - self.right)

    def y(self, value: float) -> float:
        """Returns the vertical place of a value."""
        low, high = self.y_range
        share = (value - low) / (high - low) if high > low else 0.5
        return self.height - self.bottom - min(1.0, max(0.0, share)) * (self.height - self.bottom - self.top)

    def grid(self, x: str, y: str, *, percent: bool = False) -> str:
        """Returns the grid with both axes. `x`, `y`: their names; `percent`: shows the y axis in percent."""
        base, end = self.height - self.bottom, WIDTH - self.right
        parts = []
        for value in ticks(*self.y_range):
            at = self.y(value)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{end}" y1="{at:.1f}" y2="{at:.1f}"/>')
            parts.append(text_at(self.left - 8, at + 4, f"{value:.0%}" if percent else short_number(value), "tick end"))
        parts.extend(
            text_at(self.x(value), base + 18, short_number(value), "tick middle") for value in ticks(*self.x_range)
        )
        parts.append(f'<line class="axis" x1="{self.left}" x2="{end}" y1="{base}" y2="{base}"/>')
        parts.append(text_at((self.left + end) / 2, self.height - 8, x, "axis-name middle"))
        middle = (self.top + base) / 2
        parts.append(
            f'<text class="axis-name middle" transform="translate(14 {middle:.1f}) rotate(-90)">{escape(y)}</text>'
        )
        return "".join(parts)

    def columns(self, *, signed: bool) -> str:
        """Returns vertical grid lines with the numbers of the x axis. `signed`: the numbers have signs."""
        base = self.height - self.bottom
        parts = []
        for value in ticks(*self.x_range):
            at = self.x(value)
            parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="8" y2="{base:.1f}"/>')
            text = f"{value:+.2g}" if signed and value else short_number(value)
            parts.append(text_at(at, base + 18, text, "tick middle"))
        return "".join(parts)

    def path(self, points: Sequence[Point], kind: str) -> str:
        if not points:
            return ""
        return f'<path class="{kind}" d="{self._steps(points)}"/>'

    def area(self, points: Sequence[Point], kind: str) -> str:
        return f'<path class="{kind}" d="{self._steps(points)}Z"/>' if points else ""

    def dot(self, point: Point, kind: str, text: str) -> str:
        x, y = self.x(point[0]), self.y(point[1])
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"><title>{escape(text)}</title></circle>'

    def star(self, point: Point, kind: str, text: str) -> str:
        x, y = self.x(point[0]), self.y(point[1])
        d = f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"
        return f'<path class="{kind}" d="{d}"><title>{escape(text)}</title></path>'

    def whisker(self, whisker: Whisker, y: float) -> str:
        """Returns a dot with its interval as a line, at the height `y`."""
        low, high, at = self.x(whisker.low), self.x(whisker.high), self.x(whisker.value)
        kind = f"s{whisker.series % 6}"
        title = escape(whisker.text or f"{whisker.value:.3f} [{whisker.low:.3f}, {whisker.high:.3f}]")
        return (
            f'<g><title>{title}</title><line class="whisker {kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="dot {kind}" cx="{at:.1f}" cy="{y:.1f}" r="4"/></g>'
        )

    def _steps(self, points: Iterable[Point]) -> str:
        return "".join(f"{'L' if i else 'M'}{self.x(x):.1f} {self.y(y):.1f}" for i, (x, y) in enumerate(points))


def picture(inner: str, height: float, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}">{inner}</svg>'


def text_at(x: float, y: float, text: str, kind: str, *, full: str = "") -> str:
    title = f"<title>{escape(full)}</title>" if full and full != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}{title}</text>'


def _cut(text: str, room: float) -> str:
    most = max(4, int(room / 7.2) - 1)
    return text if len(text) <= most else text[: most - 1] + "…"


def ticks(low: float, high: float) -> list[float]:
    """Returns about five round numbers from `low` to `high`, for the labels of an axis."""
    if not high > low:
        return [low]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def nice(value: float) -> float:
    """Returns the smallest round number that is not below the value, for the end of an axis."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(power * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * factor >= value * 0.999)


def short_number(value: float) -> str:
    if value and abs(value) >= 10_000:
        return f"{value / 1_000:,.0f}k"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"
