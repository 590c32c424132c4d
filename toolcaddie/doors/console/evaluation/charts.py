"""The charts of an evaluation, drawn by the module that draws those of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from toolcaddie.evaluation.measure import DEPTH
from toolcaddie.evaluation.report.svg import Row, Series, Whisker, dots, lines

_METRICS = ("recall@1", "recall@5", "recall@10", "complete@10", "ndcg@10", "recall@sent")


def recall_chart(curves: Sequence[Mapping[str, Any]]) -> Markup:
    """Returns the recall by the number of places, with a band for the interval."""
    series = [
        Series(
            name=curve["name"],
            points=[(float(k), value) for k, (value, _, _) in enumerate(curve["points"], 1)],
            band=[(float(k), low, high) for k, (_, low, high) in enumerate(curve["points"], 1)],
        )
        for curve in curves
    ]
    return Markup(lines(series, x="places", y="recall", x_range=(1.0, float(DEPTH))))


def metrics_chart(configurations: Sequence[Mapping[str, Any]]) -> Markup:
    """Returns the main figures with their intervals."""
    rows = [
        Row(
            label=name,
            whiskers=[
                Whisker(value=each["metrics"][name], low=low, high=high, series=number)
                for number, each in enumerate(configurations)
                for low, high in [each["intervals"]["metrics"][name]]
            ],
        )
        for name in _METRICS
        if name in configurations[0]["metrics"]
    ]
    plot = dots(rows, left=110.0, label="figures with their intervals", series=len(configurations))
    return Markup(plot)
