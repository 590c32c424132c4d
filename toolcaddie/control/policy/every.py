"""A policy that combines several policies."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.control.decisions import joined
from toolcaddie.core.approval import Approval
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask, View
from toolcaddie.core.control import Decision, Principal
from toolcaddie.ports import ApproverPolicy, NamingPolicy, Policy


class EveryPolicy:
    """Shows the tools that all of its policies show, and joins their decisions: deny beats ask beats allow."""

    def __init__(self, *policies: Policy) -> None:
        self._policies: Sequence[Policy] = policies

    @property
    def version(self) -> str:
        return "+".join(policy.version for policy in self._policies)

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        view = View(catalog=catalog)
        for policy in self._policies:
            if (mask := policy.visible(catalog, principal)) is not None:
                view = view.narrowed(mask)
        return view.mask

    async def decide(self, request: CallRequest) -> Decision:
        """Asks every policy, even after a deny, because each may count the calls it has judged."""
        return joined([await policy.decide(request) for policy in self._policies])

    def approver_decision(self, approval: Approval, person: Principal) -> Decision:
        """Joins the decisions of the policies that say who may approve; without such a policy, everybody may."""
        judges = [policy for policy in self._policies if isinstance(policy, ApproverPolicy)]
        everybody = Decision(verdict="allow")
        return joined([everybody, *(policy.approver_decision(approval, person) for policy in judges)])

    def names_approver(self, approval: Approval, person: Principal) -> bool:
        """Returns True if one of the policies names this person as one who may approve this call."""
        return any(isinstance(each, NamingPolicy) and each.names_approver(approval, person) for each in self._policies)
