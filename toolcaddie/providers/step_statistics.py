"""Counts of what models did when they were forced to call tools; they correct the capability table while the process lives."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.util.replacing import replace

_MOST_MODELS = 1_000
"""Models remembered; the least recently used is dropped first. A gateway's clients may name as many as they like."""
_PRIOR = 4.0
"""Number of answers that weigh as much as the capability table."""
_ABOUT_FORCING = re.compile(
    r"tool.?choice|tool.?config|function.?call|forced|thinking|reasoning|response.?(format|schema|json|mime)"
    r"|json.?schema|structured|schema|output.?(config|format)|text\.format",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Counts of one step with one model."""

    answers: int = 0
    """Answers that came back, whether or not they did what was asked."""
    honoured: int = 0
    refused: bool = False
    """The server calls the step an error: it is not tried again."""


class StepStatistics:
    """Counts by model and step. One for a process, shared by all providers that force.

    A model is `provider:model`.
    """

    def __init__(self, most: int = _MOST_MODELS) -> None:
        self._most = most
        self._models: OrderedDict[str, dict[str, StepCounts]] = OrderedDict()

    def record_answer(self, model: str, step: str, *, honoured: bool) -> None:
        steps = self._steps(model)
        counts = steps.get(step, StepCounts())
        steps[step] = replace(counts, answers=counts.answers + 1, honoured=counts.honoured + honoured)

    def record_refusal(self, model: str, step: str, error: str) -> None:
        """Remembers that the server refused a step, but only if its error is about forcing and not about something else."""
        if _ABOUT_FORCING.search(error):
            steps = self._steps(model)
            steps[step] = replace(steps.get(step, StepCounts()), refused=True)

    def chance(self, model: str, step: str, expected: float) -> float:
        """Returns the chance that a model does what the step asks: the expected one, moved by the counts; 0 if refused."""
        counts = self._models.get(model, {}).get(step)
        if counts is None:
            return expected
        return 0.0 if counts.refused else (_PRIOR * expected + counts.honoured) / (_PRIOR + counts.answers)

    def counts(self, model: str) -> Mapping[str, StepCounts]:
        """Returns the counts of a model by step."""
        return dict(self._models.get(model, {}))

    def _steps(self, model: str) -> dict[str, StepCounts]:
        steps = self._models.setdefault(model, {})
        self._models.move_to_end(model)
        if len(self._models) > self._most:
            self._models.popitem(last=False)
        return steps
