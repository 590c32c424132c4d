"""What was seen of models while they were forced to call tools: it corrects the capability table as long as the process lives."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.util.replacing import replace

_MOST = 1_000
"""Models kept; the one not asked for longest goes first. A gateway's clients may name as many as they like."""
_PRIOR = 4.0
"""So many observations weigh as much as what the table says."""
_OF_FORCING = re.compile(
    r"tool.?choice|tool.?config|function.?call|forced|thinking|reasoning|response.?(format|schema|json|mime)"
    r"|json.?schema|structured|schema|output.?(config|format)|text\.format",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How one way of asking went with one model."""

    asked: int = 0
    """Answers that came back, whether or not they did what was asked."""
    honoured: int = 0
    refused: bool = False
    """The server calls it an error: not asked again."""


class Observed:
    """Counts by provider, model and way of asking. One for a process, shared by all that force."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._models: OrderedDict[str, dict[str, Seen]] = OrderedDict()

    def answered(self, model: str, how: str, *, honoured: bool) -> None:
        """`model` is `provider:model`."""
        ways = self._ways(model)
        seen = ways.get(how, Seen())
        ways[how] = replace(seen, asked=seen.asked + 1, honoured=seen.honoured + honoured)

    def refused(self, model: str, how: str, error: str) -> None:
        """The server refused a request that asked so. Kept only where its words are about that, not about something else."""
        if _OF_FORCING.search(error):
            ways = self._ways(model)
            ways[how] = replace(ways.get(how, Seen()), refused=True)

    def chance(self, model: str, how: str, expected: float) -> float:
        """How likely it does what is asked: what the table expects, moved by what was seen; 0 where it is refused."""
        seen = self._models.get(model, {}).get(how)
        if seen is None:
            return expected
        return 0.0 if seen.refused else (_PRIOR * expected + seen.honoured) / (_PRIOR + seen.asked)

    def seen(self, model: str) -> Mapping[str, Seen]:
        return dict(self._models.get(model, {}))

    def _ways(self, model: str) -> dict[str, Seen]:
        ways = self._models.setdefault(model, {})
        self._models.move_to_end(model)
        if len(self._models) > self._most:
            self._models.popitem(last=False)
        return ways
