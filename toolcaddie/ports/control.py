"""Interfaces (sockets, which plugins fill) for control: policies that allow or deny calls, and approvals of calls by people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal


class Policy(Protocol):
    """Rules for the tools that a principal (the person or program behind a request) may see and call."""

    @property
    def version(self) -> str:
        """Version of the rules; an approval is valid only under the version for which it was requested."""
        ...

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Returns the tools this principal may see; None: all."""
        ...

    async def decide(self, request: CallRequest) -> Decision:
        """Returns the decision on one call, before it runs: allow, deny or ask a person."""
        ...


@runtime_checkable
class ApproverPolicy(Protocol):
    """A policy that also says who may approve calls. Under any other, everybody of the tenant may, but nobody a call of their
    own."""

    def approver_decision(self, approval: Approval, person: Principal) -> Decision:
        """Returns whether this person may approve this call: allow, or deny with a reason. `person` is not the one who asked."""
        ...


@runtime_checkable
class NamingPolicy(Protocol):
    """A policy that also names people who may approve calls of tools that they cannot see themselves. Under any other, nobody
    sees or approves a call of a tool that is hidden from them."""

    def names_approver(self, approval: Approval, person: Principal) -> bool:
        """Returns True if the policy names this person, or the person's role, as one who may approve this call. Whether the
        person may, `ApproverPolicy.approver_decision` says."""
        ...


class Approver(Protocol):
    """Answers approvals at once, if a person is present to answer."""

    async def approve(self, approval: Approval) -> bool | None:
        """Returns True (the call may run) or False. None: not decided yet, so the approval and the run are stored until it is."""
        ...


@runtime_checkable
class ImpersonalApprover(Protocol):
    """An approver that refuses without a person. The refusals of any other are told to the model as those of a person."""

    @property
    def refusal(self) -> str:
        """What the model reads if it refuses a call."""
        ...


class ApprovalStore(Protocol):
    """Approvals requested from people, and their answers. If several callers answer or use the same approval
    at the same time, only one of them succeeds.

    An approval belongs to the tenant of its principal: other tenants can neither see nor answer it.
    """

    async def open(self, approval: Approval) -> None:
        """Stores a new approval."""
        ...

    async def get(self, tenant: str, approval_id: str) -> Approval | None: ...

    async def equal(self, approval: Approval) -> Approval | None:
        """Returns the last approval that asks the same: the same principal, tool, arguments and policy version. None: there is
        none."""
        ...

    async def list(self, tenant: str, *, status: ApprovalStatus | None = None, limit: int = 100) -> Sequence[Approval]:
        """Returns approvals, the oldest first."""
        ...

    async def answer(
        self, tenant: str, approval_id: str, *, approved: bool, by: Principal | None = None, reason: str = ""
    ) -> Approval:
        """Answers an approval, once. Raises `RequestError` if it is unknown, already answered or expired."""
        ...

    async def use(
        self, tenant: str, approval_id: str, *, digest: str, policy_version: str, used_by: str = ""
    ) -> Approval:
        """Marks an approval as used by a call, because it is valid for one call only. `digest`: of the tool and
        arguments that will run. Raises `RequestError` unless the approval was given for this digest and policy version and is
        still valid."""
        ...
