"""Bounded memory of sinks: the number of active runs, and label values from outside."""

from __future__ import annotations

from toolcaddie.util.text import visible_line

LABEL_LIMIT = 500
"""Different values of a label from outside (tools, models); later values count as `other`."""

MOST_RUNS = 10_000
"""Active runs of which a sink holds the state."""

_LABEL_LENGTH = 200


class Labels:
    """Bounds the number of different label values: each costs memory for ever, in this process and in the metrics database."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}

    def of(self, value: str) -> str:
        """Returns the label for a value: of bounded length and safe to display."""
        if value in self._labels:
            return self._labels[value]
        if len(self._labels) >= LABEL_LIMIT:
            return "other"
        label = self._labels[value] = visible_line(value[:_LABEL_LENGTH])
        return label
