"""Memory of sinks: runs under way, and names from outside, both bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from toolcaddie.util.text import visible_line

M = TypeVar("M")

LABEL_LIMIT = 500
"""Different values of a label that comes from outside (tools, models); what comes later counts as `other`."""

_LABEL_LENGTH = 200
_REMEMBERED_RUNS = 10_000


class Remembered(Generic[M]):
    """State of the runs under way; the oldest is forgotten when there are too many."""

    def __init__(self, forget: Callable[[M], None] = lambda _: None) -> None:
        self._runs: OrderedDict[str, M] = OrderedDict()
        self._forget = forget

    def put(self, run_id: str, value: M) -> None:
        self._runs[run_id] = value
        if len(self._runs) > _REMEMBERED_RUNS:
            self._forget(self._runs.popitem(last=False)[1])

    def get(self, run_id: str) -> M | None:
        return self._runs.get(run_id)

    def pop(self, run_id: str) -> M | None:
        return self._runs.pop(run_id, None)


class Labels:
    """Keeps the number of different label values bounded: each costs memory for ever, here and in the database behind."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, value: str) -> str:
        """The label for a value: as it is, of bounded length, and safe to show."""
        if value in self._known:
            return self._known[value]
        if len(self._known) >= LABEL_LIMIT:
            return "other"
        label = self._known[value] = visible_line(value[:_LABEL_LENGTH])
        return label
