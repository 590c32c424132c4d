"""Limits on the memory of metrics and spans: the number of active runs, and the number of different values of a label."""

from __future__ import annotations

from toolcaddie.util.text import visible_line

LABEL_LIMIT = 500
"""Largest number of different values of a label, such as names of tools or models. All further values count as `other`."""

MOST_RUNS = 10_000
"""Largest number of active runs whose state a sink holds."""

MOST_CONVERSATIONS = 50_000
"""Largest number of conversations whose expansions a sink counts. A conversation that was dropped counts as a new one."""

_LABEL_LENGTH = 200
"""Largest number of characters of a label value."""


class Labels:
    """Limits the number of different values of a label, because each costs memory for ever, here and in the metrics database."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}

    def of(self, value: str) -> str:
        """Returns the label for a value: short, and without characters that a terminal would interpret."""
        if value in self._labels:
            return self._labels[value]
        if len(self._labels) >= LABEL_LIMIT:
            return "other"
        label = self._labels[value] = visible_line(value[:_LABEL_LENGTH])
        return label
