"""The people who may answer a question: those to whom the policy permits it, and never the one who asked for the call.

Nobody sees or answers a question about a tool that is hidden from them, by its own roles and scope, by the settings of their bot
or by the policy, unless the policy names them as approvers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from toolcaddie.control.approvals import closed, unknown_approval
from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.control.visibility import Visibility
from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.tool import Tool
from toolcaddie.ports import ApprovalStore

_ALL = sys.maxsize
_AT_ONCE = 20
"""The number of questions judged before other work of the event loop goes on. Each takes 0.2 to 0.5 ms."""


class Answered(Struct, frozen=True, kw_only=True):
    """The outcome of one answer: the question as it is now, or the reason why the answer does not count."""

    id: str
    approval: Approval | None = None
    problem: str = ""


class JudgedApprovals:
    """Approvals that only those may answer who may approve the call. Implements `ports.ApprovalStore` around another store.

    An answer without a person (`by=None`) is the application's own, and is not judged. `tool_now` returns a tool of a
    tenant as it is now, by its name; None: it is not known.
    """

    def __init__(
        self,
        approvals: ApprovalStore,
        policy: CurrentPolicy,
        visibility: Visibility,
        *,
        tool_now: Callable[[str, str], Tool | None] = lambda tenant, name: None,
    ) -> None:
        self._approvals = approvals
        self._policy = policy
        self._visibility = visibility
        self._tool_now = tool_now
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

    async def shown_to(
        self,
        person: Principal,
        *,
        status: ApprovalStatus | None,
        limit: int,
        tool: str = "",
        newest_first: bool = False,
    ) -> Sequence[Approval]:
        """Returns the questions that a person may see, the oldest first: those that the person may approve, and those about the
        person's own calls. `limit`: the largest number of questions. `tool`: only about calls of this tool; empty: of all."""
        approvals = await self._approvals.list(person.tenant, status=status, limit=_ALL)
        if newest_first:
            approvals = approvals[::-1]
        if tool:
            approvals = [approval for approval in approvals if approval.tool == tool]
        shown: list[Approval] = []
        may_see = self.seer(person)
        for number, approval in enumerate(approvals):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # other requests go on meanwhile
            if may_see(approval):
                shown.append(approval)
                if len(shown) == limit:
                    break
        return shown

    def may_see(self, approval: Approval, person: Principal) -> bool:
        return self.seer(person)(approval)

    def seer(self, person: Principal) -> Callable[[Approval], bool]:
        """Returns a function that says which questions a person may see, for many of them at one moment: it looks once at what
        hides each tool."""
        reasons: dict[tuple[str, bool, bytes], str] = {}

        def hidden(approval: Approval) -> str:
            key = (approval.tool, approval.restrictions_kept, msgspec.json.encode(approval.subject))
            if key not in reasons:
                reasons[key] = self._hidden(approval, person)
            return reasons[key]

        return lambda approval: (
            approval.principal.owner == person.owner or not self._objection(approval, person, hidden)
        )

    def check(self, approval: Approval, person: Principal, *, approved: bool) -> None:
        """Raises `RequestError` unless this person may answer. Everybody may refuse a call of their own."""
        own = approval.principal.owner == person.owner
        if own and not approved:
            return
        if own:
            reason = (
                f"{person.id} asked for this call, and nobody approves a call of their own; somebody else must answer"
            )
        elif not (reason := self._objection(approval, person, lambda each: self._hidden(each, person))):
            return
        raise RequestError(f"{approval.id} ({approval.tool}): {reason}", param="approval", code="may_not_approve")

    def _objection(self, approval: Approval, person: Principal, hidden_by: Callable[[Approval], str]) -> str:
        """Returns why this person may not approve; empty: the person may. `hidden_by` returns why the tool of a question is
        hidden from the person."""
        if approval.principal.tenant != person.tenant:
            return "it belongs to another tenant"
        decision = self._policy.approver_decision(approval, person)
        if decision.verdict != "allow":
            why = f": {decision.reason}" if decision.reason else ""
            return f"{person.id} may not approve calls of {approval.tool} (rule {decision.rule}{why})"
        if self._policy.names_approver(approval, person) or not (hidden := hidden_by(approval)):
            return ""
        return (
            f"{person.id} may not approve calls of {approval.tool}, because {hidden}; policy.approvers can name people and "
            "roles who may approve nevertheless"
        )

    def _hidden(self, approval: Approval, person: Principal) -> str:
        """Returns why the tool of a question is hidden from this person, as it was then or as it is now; empty: it is not."""
        now = self._tool_now(approval.principal.tenant, approval.tool)
        asked = approval.subject if approval.restrictions_kept else None
        tools = [tool for tool in (asked, now) if tool is not None]
        if not tools:
            return "the question is from an older version of Toolcaddie (resume the run to ask again)"
        for tool in tools:
            if (restriction := self._visibility.restriction(tool, person)) is not None:
                return f"this tool is hidden from them ({restriction.rule}: {restriction.reason})"
            mask = self._policy.visible(Catalog.of([tool], check_schemas=False), person)
            if mask is not None and not mask[0]:
                return "this tool is hidden from them (by the rules about `see`)"
        return ""
