"""An approver that gives every question the same answer, because the settings say so."""

from __future__ import annotations

from toolcaddie.core.approval import Approval


class SameAnswer:
    """Implements `ports.Approver`: approves, or refuses, every call about which the policy asks. Each answer is recorded."""

    refusal = "The settings refuse every call that needs an approval; no person was asked."
    """What the model reads about a refused call."""

    def __init__(self, *, approved: bool) -> None:
        self._approved = approved

    async def approve(self, approval: Approval) -> bool | None:
        return self._approved
