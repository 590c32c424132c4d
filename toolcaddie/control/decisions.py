"""One decision from several."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.core.control import Decision

_STRENGTH = {"deny": 2, "ask": 1, "allow": 0}
_UNDECIDED = Decision(verdict="deny", reason="no policy decided", rule="undecided")


def joined(decisions: Iterable[Decision]) -> Decision:
    """Returns the strongest decision: deny beats ask beats allow, the first counts among equals. Without any: deny."""
    return max(decisions, key=lambda decision: _STRENGTH[decision.verdict], default=_UNDECIDED)
