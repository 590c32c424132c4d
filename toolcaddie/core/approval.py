"""A question to a person: may exactly this call run? And its answer."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.tool import JsonObject
from toolcaddie.util.replacing import replace

ApprovalStatus = Literal["open", "approved", "refused", "expired", "used"]


class Approval(Struct, frozen=True, kw_only=True):
    """A question and its answer. It holds for one call with exactly these arguments, under one version of the policy, once."""

    id: str
    run_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    """The exact arguments, without those that the application injects."""
    digest: str
    """Of tool and arguments: what was approved is what runs."""
    policy_version: str
    principal: Principal
    """Who the run belongs to."""
    reason: str = ""
    """Why the policy asks."""
    rule: str = ""
    created: float
    """Seconds since the epoch."""
    expires: float
    status: ApprovalStatus = "open"
    answered: float | None = None
    answered_by: Principal | None = None
    answer_reason: str = ""

    def at(self, now: float) -> Approval:
        """The approval as it stands at a moment: without a use until `expires`, it has expired."""
        if self.status in ("open", "approved") and now >= self.expires:
            return replace(self, status="expired")
        return self
