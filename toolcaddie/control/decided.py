"""Answers that were given while a run was put away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Approver


class Decided:
    """The approver of a resumed run: a person's answers first, then whoever is asked usually."""

    def __init__(self, approvals: Mapping[str, bool], otherwise: Approver | None) -> None:
        self._approvals = approvals
        self._otherwise = otherwise

    async def approve(self, call: ToolCall, *rest: Any) -> bool | None:
        if call.id in self._approvals:
            return self._approvals[call.id]
        return None if self._otherwise is None else await self._otherwise.approve(call, *rest)
