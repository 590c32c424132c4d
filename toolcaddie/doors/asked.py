"""Questions about calls as people see them: the same at `/approvals` and in the console.

A person sees the questions that the person may approve, and those about the person's own calls. Any other question does not exist
for that person, so nobody learns of tools that are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import msgspec

from toolcaddie.control.approvers import JudgedApprovals
from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import JsonObject

STATES = (*get_args(ApprovalStatus), "all")
"""States by which questions can be listed."""

STATUSES: Mapping[str, int] = {"unknown_approval": 404, "approval_closed": 409, "may_not_approve": 403}
"""HTTP statuses of refusals, by the code of the `RequestError`. Any other is 400."""

LONGEST_REASON = 2_000
"""Largest number of characters of the reason for an answer."""

_FOR_RULES = ("subject", "restrictions_kept")
"""Fields of a question that only rules need."""


def state_of(text: str) -> ApprovalStatus | None:
    """Returns the state that a text names; None: all. Raises `RequestError`."""
    if text not in STATES:
        raise RequestError(f"'status' is {text[:40]!r}; it can be {', '.join(STATES)}", param="status")
    return next((state for state in get_args(ApprovalStatus) if state == text), None)


async def visible_approval(approvals: JudgedApprovals, approval_id: str, person: Principal) -> Approval:
    """Returns a question that this person may see. Raises `RequestError` for any other."""
    approval = await approvals.get(person.tenant, approval_id)
    if approval is None or not approvals.may_see(approval, person):
        message = f"there is no approval {approval_id[:80]!r} that {person.id} may see"
        raise RequestError(message, param="approval", code="unknown_approval")
    return approval


def by_run(approvals: Iterable[Approval]) -> Mapping[str, Sequence[Approval]]:
    """Returns the questions of each run together, because its calls wait for all of them."""
    runs: dict[str, list[Approval]] = {}
    for approval in approvals:
        runs.setdefault(approval.run_id, []).append(approval)
    return runs


def question_json(approval: Approval) -> JsonObject:
    """Returns a question as JSON, without what only rules need."""
    shown = msgspec.to_builtins(approval)
    return {"object": "approval", **{name: value for name, value in shown.items() if name not in _FOR_RULES}}
