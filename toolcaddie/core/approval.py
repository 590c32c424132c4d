"""Approvals: a person is asked whether exactly this call may run, and answers. The policy asks for them; the application shows
them to a person and passes the answer to `Runtime.resume`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from toolcaddie.core.control import Principal
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.util.replacing import replace

EXPIRY_SECONDS = 30 * 86_400.0
"""Default age in seconds at which a question expires."""

ApprovalStatus = Literal["open", "approved", "refused", "expired", "used"]


class Approval(Struct, frozen=True, kw_only=True):
    """A question about a call, and its answer. An approval is valid for one call with exactly these arguments, and only as long
    as the tool is the same and the version of the policy that asked is in force."""

    id: str
    run_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    """The exact arguments, without those that the application injects."""
    digest: str
    """Digest of `arguments` and of the tool: its definition, and what runs it. A call runs on this approval only if its digest is
    equal."""
    policy_version: str
    principal: Principal
    """Owner of the run."""
    subject: Tool | None = None
    """The tool without its texts, as rules see it that say who may approve. None: the question is from an older version of
    Toolcaddie."""
    preview: str = ""
    """What the call would do, by the tool's source, such as the diff of an edit. Empty: the source does not say."""
    effects: tuple[str, ...] = ()
    """The effects of the call on the world (`Assessment.effects`)."""
    restrictions_kept: bool = False
    """True: `subject` has the roles and the scope of the tool. False: the question is from an older version of Toolcaddie."""
    reason: str = ""
    """Reason given by the policy."""
    rule: str = ""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the model had read when it asked for the call."""
    created: float
    """Seconds since the epoch."""
    expires: float
    """Seconds since the epoch."""
    status: ApprovalStatus = "open"
    answered: float | None = None
    """Seconds since the epoch."""
    answered_by: Principal | None = None
    answer_reason: str = ""
    used_by: str = ""
    """The run and the call that used the approval (`run_1/call_2`); empty: it is not used."""

    def at(self, now: float) -> Approval:
        """Returns the approval as it is at the moment `now`: with status `expired` if `expires` has passed before it was used."""
        if self.status in ("open", "approved") and now >= self.expires:
            return replace(self, status="expired")
        return self
