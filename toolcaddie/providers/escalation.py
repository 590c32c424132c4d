"""The steps by which a model is forced to call a tool: their order, and the chance of each with a certain model.

plain       the request as it is
nudge       a sentence is added to the user's message
required    `tool_choice` requires a tool
named       `tool_choice` names one tool
schema      a JSON answer constrained by a schema, which stands for a call
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.providers.step_statistics import StepStatistics

Step = Literal["plain", "nudge", "required", "named", "schema"]
FirstStep = Literal["plain", "required"]

ESCALATION: tuple[Step, ...] = ("nudge", "required", "named", "schema")
"""Steps after the first, from the gentlest to the hardest."""

_EXPECTED: Mapping[Step, float] = {"nudge": 0.5, "required": 0.98, "named": 0.98, "schema": 0.95}
"""Chance that a model calls a tool, if the capability table allows the step. Statistics of its answers adjust the chance."""
_KINDS: Mapping[Step, str] = {"nudge": "words", "required": "choice", "named": "choice", "schema": "schema"}
"""Step -> kind. A failed step makes the other steps of its kind less likely to succeed."""
_REPEAT_FACTORS: Mapping[str, float] = {"words": 0.5, "choice": 0.3, "schema": 0.3}
"""Factor by which each failed step of a kind reduces the chance of that kind: a server that ignores one choice will probably
ignore another, while a model that overlooked a sentence may heed the next."""
_LEAST_CHANCE = 0.25
"""Chance below which a gentler step is skipped if there is a better step, because it would only cost a request."""
_OFF = ("disabled", "none", "off")
"""Values of a parameter that turn thinking off."""


@dataclass(slots=True, kw_only=True)
class Escalation:
    """Chooses the steps of one request with one model. `model` is `provider:model`."""

    row: Capabilities
    statistics: StepStatistics
    model: str
    attempts: int
    thinking: bool
    """True: the model will think before it answers this request."""
    quiet_params: Mapping[str, Any]
    """Parameters that keep a forced request from thinking."""
    can_name: bool
    """True: there is a candidate that a choice or a schema may name."""
    first_step: FirstStep = "plain"
    _failed_kinds: list[str] = field(default_factory=list)
    _refused: set[Step] = field(default_factory=set)

    def step(self, number: int) -> Step:
        """Returns the step of attempt `number`, which counts from 1."""
        if number == 1:
            return "plain" if self.first_step == "plain" else self._best_choice()
        plan = self._plan(self.attempts - number + 1)
        promising = [step for step in plan if self._chance(step, ()) >= _LEAST_CHANCE]
        return min(promising or plan, key=ESCALATION.index)

    def record_failure(self, step: Step) -> None:
        """Records that the answer called no tool."""
        self._failed_kinds.append(_KINDS.get(step, ""))
        self._record_answer(step, honoured=False)

    def record_success(self, step: Step) -> None:
        self._record_answer(step, honoured=True)

    def record_refusal(self, step: Step, error: str) -> None:
        """Skips this step for the rest of the request, and for later requests too if the error says it is unsupported."""
        self._refused.add(step)
        self.statistics.record_refusal(self.model, self._key(step), error)

    def params(self, step: Step) -> Mapping[str, Any]:
        """Returns the parameters that the step sets over those of the request."""
        return self.quiet_params if step in ("required", "named") else {}

    def _plan(self, places: int) -> list[Step]:
        """Returns the steps with the best chance in `places` attempts together, each step once. It is never
        empty, because a nudge is always possible."""
        plan: list[Step] = []
        candidates = [step for step in ESCALATION if self._chance(step, ()) > 0]
        while candidates and len(plan) < places:
            best = max(candidates, key=lambda step: self._chance(step, plan))
            candidates.remove(best)
            plan.append(best)
        return plan

    def _best_choice(self) -> Step:
        choices: tuple[Step, ...] = ("required", "named")
        best = max(choices, key=lambda step: self._chance(step, ()))
        return best if self._chance(best, ()) > 0 else "plain"

    def _chance(self, step: Step, planned: Sequence[Step]) -> float:
        if step in self._refused or not self._is_possible(step):
            return 0.0
        kind = _KINDS[step]
        repeats = self._failed_kinds.count(kind) + sum(_KINDS[other] == kind for other in planned)
        chance = self.statistics.chance(self.model, self._key(step), _EXPECTED[step])
        return chance * _REPEAT_FACTORS[kind] ** repeats

    def _is_possible(self, step: Step) -> bool:
        """Returns True if the capability table allows the step."""
        if step == "nudge":
            return True
        if step == "schema":
            return self.row.json_schema != "no" and self.can_name
        if self.thinking and not self.row.forced_with_thinking and not self.quiet_params:
            return False
        support = self.row.required if step == "required" else self.row.named
        return support == "honoured" and (step == "required" or self.can_name)

    def _record_answer(self, step: Step, *, honoured: bool) -> None:
        self.statistics.record_answer(self.model, self._key(step), honoured=honoured)

    def _key(self, step: Step) -> str:
        """Returns the step's name in the statistics; another one with thinking: some servers refuse a choice only then."""
        thinks = self.thinking and step in ("required", "named") and not self.quiet_params
        return f"{step}, thinking" if thinks else step


def thinks(params: Mapping[str, Any], row: Capabilities) -> bool:
    """Returns True if a request with these parameters lets the model think."""
    for name in ("thinking", "enable_thinking", "reasoning", "reasoning_effort"):
        if name in params:
            return _is_on(params[name])
    return row.thinks


def quiet_params(params: Mapping[str, Any], row: Capabilities) -> Mapping[str, Any]:
    """Returns the parameters that keep a model from thinking over a forced request.

    They are empty if none are known or needed, or if the caller has set one of them.
    """
    if row.forced_with_thinking or any(name in params for name in row.forced_params):
        return {}
    return row.forced_params


def _is_on(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = value.get("type", value.get("effort", value.get("enabled", True)))
    return value not in (*_OFF, False, None)
