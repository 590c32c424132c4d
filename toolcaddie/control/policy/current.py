"""The policy of a running process, which can be exchanged while requests are served."""

from __future__ import annotations

from toolcaddie.core.approval import Approval
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.ports import ApproverPolicy, NamingPolicy, Policy
from toolcaddie.util.replacing import replace


class CurrentPolicy:
    """Passes every question to the policy of this moment. A decision is that of one policy, and has its version."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def exchange(self, policy: Policy) -> None:
        """Replaces the policy. Approvals under another version no longer count."""
        self._policy = policy

    @property
    def now(self) -> Policy:
        """The policy of this moment."""
        return self._policy

    @property
    def version(self) -> str:
        return self._policy.version

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return self._policy.visible(catalog, principal)

    async def decide(self, request: CallRequest) -> Decision:
        policy = self._policy
        decision, version = await policy.decide(request), policy.version
        return decision if decision.policy_version == version else replace(decision, policy_version=version)

    def approver_decision(self, approval: Approval, person: Principal) -> Decision:
        """Returns whether this person may approve this call; under a policy without such rules, everybody may."""
        policy = self._policy
        return (
            policy.approver_decision(approval, person)
            if isinstance(policy, ApproverPolicy)
            else Decision(verdict="allow")
        )

    def names_approver(self, approval: Approval, person: Principal) -> bool:
        """Returns True if the policy names this person as one who may approve this call, also if the tool is hidden from them."""
        policy = self._policy
        return isinstance(policy, NamingPolicy) and policy.names_approver(approval, person)
