"""Which rung of the ladder comes next: the ways of asking a model for a tool call, and what each is worth with this model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.providers.observed import Observed

Rung = Literal["plain", "nudge", "required", "named", "schema"]
Begin = Literal["plain", "required"]

CLIMB: tuple[Rung, ...] = ("nudge", "required", "named", "schema")
"""From the gentlest to the hardest."""

_EXPECTED: Mapping[Rung, float] = {"nudge": 0.5, "required": 0.98, "named": 0.98, "schema": 0.95}
"""How likely each gives a call where the table says it works; only their order is of consequence, and what is seen moves it."""
_KIN: Mapping[Rung, str] = {"nudge": "words", "required": "choice", "named": "choice", "schema": "schema"}
_AGAIN: Mapping[str, float] = {"words": 0.5, "choice": 0.3, "schema": 0.3}
"""What a rung is worth after one of its kind came to nothing: a server that does not enforce a choice will not enforce another,
while a model that overlooked a sentence may heed the next."""
_NOT_WORTH_IT = 0.25
"""A gentler rung below this is passed over while there is a better one: it would only cost a request."""
_OFF = ("disabled", "none", "off")


@dataclass(slots=True, kw_only=True)
class Ladder:
    """One request's way up, with one model. `model` is `provider:model`."""

    row: Capabilities
    observed: Observed
    model: str
    attempts: int
    thinking: bool
    """Whether the model will think over this request."""
    quiet: Mapping[str, Any]
    """What a forced request says besides, so that it does not."""
    can_name: bool
    """There is a candidate that a choice or a schema may name."""
    begin: Begin = "plain"
    _failed: list[str] = field(default_factory=list)
    _refused: set[Rung] = field(default_factory=set)

    def rung(self, number: int) -> Rung:
        """The way of attempt `number`, which counts from 1."""
        if number == 1:
            return "plain" if self.begin == "plain" else self._best_choice()
        chosen = self._plan(self.attempts - number + 1)
        good = [rung for rung in chosen if self._worth(rung, ()) >= _NOT_WORTH_IT]
        return min(good or chosen, key=CLIMB.index)

    def came_to_nothing(self, rung: Rung) -> None:
        self._failed.append(_KIN.get(rung, ""))
        self._note(rung, honoured=False)

    def held(self, rung: Rung) -> None:
        self._note(rung, honoured=True)

    def refused(self, rung: Rung, error: str) -> None:
        """It is not asked so again in this request; and in others, where the error is about that."""
        self._refused.add(rung)
        self.observed.refused(self.model, self._way(rung), error)

    def params(self, rung: Rung) -> Mapping[str, Any]:
        return self.quiet if rung in ("required", "named") else {}

    def _plan(self, places: int) -> list[Rung]:
        """The rungs for so many attempts with the best chance together, each once. Words are always among what is left."""
        chosen: list[Rung] = []
        left = [rung for rung in CLIMB if self._worth(rung, ()) > 0]
        while left and len(chosen) < places:
            best = max(left, key=lambda rung: self._worth(rung, chosen))
            left.remove(best)
            chosen.append(best)
        return chosen

    def _best_choice(self) -> Rung:
        choices: tuple[Rung, ...] = ("required", "named")
        best = max(choices, key=lambda rung: self._worth(rung, ()))
        return best if self._worth(best, ()) > 0 else "plain"

    def _worth(self, rung: Rung, chosen: Sequence[Rung]) -> float:
        if rung in self._refused or not self._known(rung):
            return 0.0
        kin = _KIN[rung]
        before = self._failed.count(kin) + sum(_KIN[other] == kin for other in chosen)
        chance = self.observed.chance(self.model, self._way(rung), _EXPECTED[rung])
        return chance * _AGAIN[kin] ** before

    def _known(self, rung: Rung) -> bool:
        """What the table says."""
        if rung == "nudge":
            return True
        if rung == "schema":
            return self.row.json_schema != "no" and self.can_name
        if self.thinking and not self.row.forced_with_thinking and not self.quiet:
            return False
        said = self.row.required if rung == "required" else self.row.named
        return said == "honoured" and (rung == "required" or self.can_name)

    def _note(self, rung: Rung, *, honoured: bool) -> None:
        self.observed.answered(self.model, self._way(rung), honoured=honoured)

    def _way(self, rung: Rung) -> str:
        """A choice that is refused beside thinking may be fine without."""
        thinks = self.thinking and rung in ("required", "named") and not self.quiet
        return f"{rung}, thinking" if thinks else rung


def thinks(params: Mapping[str, Any], row: Capabilities) -> bool:
    """Whether a request with these parameters lets the model think."""
    for name in ("thinking", "enable_thinking", "reasoning", "reasoning_effort"):
        if name in params:
            return _is_on(params[name])
    return row.thinks


def quiet_params(params: Mapping[str, Any], row: Capabilities) -> Mapping[str, Any]:
    """What keeps a forced request from thinking, where that is known and the caller did not ask for thinking."""
    if row.forced_with_thinking or any(name in params for name in row.forced_params):
        return {}
    return row.forced_params


def _is_on(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = value.get("type", value.get("effort", value.get("enabled", True)))
    return value not in (*_OFF, False, None)
