"""Draws the spans of a run as a waterfall, in SVG.

A person may answer a question after days. A wait is therefore drawn shorter than it was, so that everything else can be seen; the
text beside it says how long it took.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from toolcaddie.doors.console.runs.spans import Span
from toolcaddie.doors.texts import shortened
from toolcaddie.util.text import visible_line

MOST = 100
"""Largest number of spans in a picture."""

_WIDTH, _LEFT, _RIGHT, _STEP, _BAR = 960.0, 250.0, 90.0, 24.0, 14.0
_LABEL = 34
_WAIT_SHARE = 0.2
"""Largest share of the whole time that is drawn for one wait, compared with the time in which something was done."""
_SHORTEST = 2.0
_LINE = Markup('<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="0" y2="{:.0f}"/>')
_ROW = Markup(
    '<g><title>{}</title><text class="label" x="{:.0f}" y="{:.1f}">{}</text>'
    '<rect class="span {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.0f}" rx="2"/>'
    '<text class="time" x="{:.1f}" y="{:.1f}">{}</text></g>'
)
_SVG = Markup('<svg class="waterfall" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')


def waterfall(spans: Sequence[Span], *, label: str) -> Markup:
    """Returns the picture. `label`: what it is called for those who do not see it."""
    shown = spans[:MOST]
    if not shown:
        return Markup("")
    axis = _Axis(shown)
    height = _STEP * len(shown) + 6
    parts = [_LINE.format(axis.x(at), axis.x(at), height) for at in (axis.start, axis.end)]
    for number, span in enumerate(shown):
        top = _STEP * number + 5
        left = axis.x(span.start)
        width = max(_SHORTEST, axis.x(span.end) - left)
        name, time = visible_line(span.label), duration(span)
        middle = top + _BAR - 2.5
        parts.append(
            _ROW.format(
                *(f"{name}, {time}", _LEFT - 10, middle, shortened(name, _LABEL)),
                *(span.kind, left, top, width, _BAR, left + width + 6, middle, time),
            )
        )
    return _SVG.format(_WIDTH, height, label, Markup("").join(parts))


def duration(span: Span) -> str:
    """Returns the length of a span as text."""
    mark = "…" if span.is_open else ""
    seconds = max(0.0, span.seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms{mark}"
    if seconds < 120:
        return f"{seconds:.1f} s{mark}"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02} min{mark}" if hours else f"{minutes} min{mark}"


class _Axis:
    """The axis of time. Within waits it is compressed."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.start = min(span.start for span in spans)
        self.end = max(span.end for span in spans)
        waits = _joined([(span.start, span.end) for span in spans if span.kind == "wait"])
        active = (self.end - self.start) - sum(end - start for start, end in waits)
        most = max(active, 0.05) * _WAIT_SHARE
        self._waits = [(start, end, min(1.0, most / (end - start))) for start, end in waits if end > start]
        self._length = self._passed(self.end) or 1.0

    def x(self, at: float) -> float:
        return _LEFT + self._passed(at) / self._length * (_WIDTH - _LEFT - _RIGHT)

    def _passed(self, at: float) -> float:
        """Returns the drawn seconds from the start until a moment."""
        removed = sum((min(at, end) - start) * (1 - share) for start, end, share in self._waits if at > start)
        return at - self.start - removed


def _joined(periods: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns periods without overlaps, in their order."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(periods):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
