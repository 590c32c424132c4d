"""The people who may answer a question: those to whom the policy permits it, and never the one who asked for the call."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolcaddie.control.approvals import closed, unknown_approval
from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.ports import ApprovalStore, ApproverPolicy

_ALL = sys.maxsize


class Answered(Struct, frozen=True, kw_only=True):
    """The outcome of one answer: the question as it is now, or the reason why the answer does not count."""

    id: str
    approval: Approval | None = None
    problem: str = ""


class JudgedApprovals:
    """Approvals that only those may answer who may approve the call. Implements `ports.ApprovalStore` around another store.

    An answer without a person (`by=None`) is the application's own, and is not judged.
    """

    def __init__(self, approvals: ApprovalStore, policy: ApproverPolicy) -> None:
        self._approvals = approvals
        self._policy = policy
        self.open = approvals.open
        self.get = approvals.get
        self.equal = approvals.equal
        self.list = approvals.list
        self.use = approvals.use

    async def answer(
        self, tenant: str, approval_id: str, *, approved: bool, by: Principal | None = None, reason: str = ""
    ) -> Approval:
        """Answers as `ApprovalStore.answer`. Raises `RequestError` also for a person who may not answer."""
        if by is not None and (approval := await self._approvals.get(tenant, approval_id)) is not None:
            self.check(approval, by, approved=approved)
        return await self._approvals.answer(tenant, approval_id, approved=approved, by=by, reason=reason)

    async def answer_all(
        self, tenant: str, answers: Mapping[str, bool], *, by: Principal, reason: str = ""
    ) -> Sequence[Answered]:
        """Answers several questions. If one of them may not be answered, or is not open, none is, and `RequestError` says why.

        Somebody else may answer one of them at the same moment: then the others are answered, and its outcome has the problem.
        """
        for approval_id, approved in answers.items():
            approval = await self._approvals.get(tenant, approval_id)
            if approval is None:
                raise unknown_approval(approval_id)
            self.check(approval, by, approved=approved)
            if approval.status != "open":
                raise RequestError(closed(approval), param="approval", code="approval_closed")
        outcomes: list[Answered] = []
        for approval_id, approved in answers.items():
            try:
                approval = await self._approvals.answer(tenant, approval_id, approved=approved, by=by, reason=reason)
                outcomes.append(Answered(id=approval_id, approval=approval))
            except RequestError as error:
                outcomes.append(Answered(id=approval_id, problem=str(error)))
        return outcomes

    async def shown_to(self, person: Principal, *, status: ApprovalStatus | None, limit: int) -> Sequence[Approval]:
        """Returns the questions that a person may see, the oldest first: those that the person may approve, and those about the
        person's own calls. `limit`: the largest number of questions."""
        approvals = await self._approvals.list(person.tenant, status=status, limit=_ALL)
        return [approval for approval in approvals if self.may_see(approval, person)][:limit]

    def may_see(self, approval: Approval, person: Principal) -> bool:
        return approval.principal.owner == person.owner or not self._objection(approval, person)

    def check(self, approval: Approval, person: Principal, *, approved: bool) -> None:
        """Raises `RequestError` unless this person may answer. Everybody may refuse a call of their own."""
        own = approval.principal.owner == person.owner
        if own and not approved:
            return
        if own:
            reason = (
                f"{person.id} asked for this call, and nobody approves a call of their own; somebody else must answer"
            )
        elif not (reason := self._objection(approval, person)):
            return
        raise RequestError(f"{approval.id} ({approval.tool}): {reason}", param="approval", code="may_not_approve")

    def _objection(self, approval: Approval, person: Principal) -> str:
        """Returns why the policy does not let this person approve; empty: it does."""
        if approval.principal.tenant != person.tenant:
            return "it belongs to another tenant"
        decision = self._policy.approver_decision(approval, person)
        if decision.verdict == "allow":
            return ""
        why = f": {decision.reason}" if decision.reason else ""
        return f"{person.id} may not approve calls of {approval.tool} (rule {decision.rule}{why})"
