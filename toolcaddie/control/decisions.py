"""Combines the decisions of several policies into one."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.core.control import Decision

_STRENGTH = {"deny": 2, "ask": 1, "allow": 0}
"""Order of the verdicts: the one with the highest number decides."""
_UNDECIDED = Decision(verdict="deny", reason="no policy decided", rule="undecided")
"""The decision if there are no policies."""


def joined(decisions: Iterable[Decision]) -> Decision:
    """Returns the strongest decision: deny beats ask, and ask beats allow. The first of equals counts. None at all: deny."""
    return max(decisions, key=lambda decision: _STRENGTH[decision.verdict], default=_UNDECIDED)
