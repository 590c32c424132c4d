"""Bounded memory of sinks: the state of active runs, and label values from outside."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from toolcaddie.util.text import visible_line

M = TypeVar("M")

LABEL_LIMIT = 500
"""Different values of a label from outside (tools, models); later values count as `other`."""

_LABEL_LENGTH = 200
_MOST_RUNS = 10_000


class Remembered(Generic[M]):
    """State of the active runs; the oldest is evicted if there are too many."""

    def __init__(self, forget: Callable[[M], None] = lambda _: None) -> None:
        self._runs: OrderedDict[str, M] = OrderedDict()
        self._forget = forget

    def put(self, run_id: str, value: M) -> None:
        self._runs[run_id] = value
        if len(self._runs) > _MOST_RUNS:
            self._forget(self._runs.popitem(last=False)[1])

    def get(self, run_id: str) -> M | None:
        return self._runs.get(run_id)

    def pop(self, run_id: str) -> M | None:
        return self._runs.pop(run_id, None)


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
