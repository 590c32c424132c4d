"""Counts the answers of models that were forced to call tools, by model and step (the steps are listed in `escalation`).

As long as the process lives, the counts correct the capability table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.util.bounded import Bounded
from toolcaddie.util.replacing import replace

_MOST_MODELS = 1_000
"""Largest number of models with counts, because clients of a gateway may name any number. The least recently used is evicted."""
_PRIOR = 4.0
"""Number of answers that weigh as much as the capability table."""
_ABOUT_FORCING = re.compile(
    r"tool.?choice|tool.?config|function.?call|forced|thinking|reasoning|response.?(format|schema|json|mime)"
    r"|json.?schema|structured|schema|output.?(config|format)|text\.format",
    re.IGNORECASE,
)
"""Words in an error that is about a parameter with which calls are forced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Counts of one step with one model."""

    answers: int = 0
    """Number of all answers."""
    honoured: int = 0
    """Number of answers that called a tool."""
    refused: bool = False
    """True: the server refuses requests with this step, so the step is not tried again."""


class StepStatistics:
    """Counts by model and step. All `Forced` providers of a process share one object. `model` is `provider:model`."""

    def __init__(self, most: int = _MOST_MODELS) -> None:
        self._models: Bounded[str, dict[str, StepCounts]] = Bounded(most)

    def record_answer(self, model: str, step: str, *, honoured: bool) -> None:
        steps = self._steps(model)
        counts = steps.get(step, StepCounts())
        steps[step] = replace(counts, answers=counts.answers + 1, honoured=counts.honoured + honoured)

    def record_refusal(self, model: str, step: str, error: str) -> None:
        """Records that the server refused a step, if its error is about forcing and not about something else."""
        if _ABOUT_FORCING.search(error):
            steps = self._steps(model)
            steps[step] = replace(steps.get(step, StepCounts()), refused=True)

    def chance(self, model: str, step: str, expected: float) -> float:
        """Returns the chance that the model calls a tool: `expected`, adjusted by the counts; 0 if the step was refused."""
        counts = (self._models.peek(model) or {}).get(step)
        if counts is None:
            return expected
        return 0.0 if counts.refused else (_PRIOR * expected + counts.honoured) / (_PRIOR + counts.answers)

    def counts(self, model: str) -> Mapping[str, StepCounts]:
        """Returns the counts of a model by step."""
        return dict(self._models.peek(model) or {})

    def _steps(self, model: str) -> dict[str, StepCounts]:
        steps = self._models.get(model)
        if steps is None:
            steps = {}
            self._models.put(model, steps)
        return steps
