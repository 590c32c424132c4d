"""Several decisions as one."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.core.control import Decision

_STRENGTH = {"deny": 2, "ask": 1, "allow": 0}
_UNDECIDED = Decision(verdict="deny", reason="no policy decided", rule="undecided")


def joined(decisions: Iterable[Decision]) -> Decision:
    """Deny beats ask beats allow; of equally strong ones the first counts. Without any decision the answer is deny."""
    return max(decisions, key=lambda decision: _STRENGTH[decision.verdict], default=_UNDECIDED)
