"""Sockets of control: policies, approvers and approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal


class Policy(Protocol):
    @property
    def version(self) -> str:
        """Names the rules as they stand: an approval holds under the version it was asked under."""
        ...

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Which tools this principal may see; None: all."""
        ...

    async def decide(self, request: CallRequest) -> Decision: ...


class Approver(Protocol):
    """Answers questions at once, where there is somebody to answer."""

    async def approve(self, approval: Approval) -> bool | None:
        """True or False: decided now. None: not yet; the question is stored, and the run is put away."""
        ...


class ApprovalStore(Protocol):
    """Questions to people and their answers. Of several who answer or use one at the same time one succeeds.

    An approval belongs to the tenant of its principal: others neither see nor answer it.
    """

    async def open(self, approval: Approval) -> None:
        """Store a new question."""
        ...

    async def get(self, tenant: str, approval_id: str) -> Approval | None: ...

    async def list(self, tenant: str, *, status: ApprovalStatus | None = None, limit: int = 100) -> Sequence[Approval]:
        """The oldest first."""
        ...

    async def answer(
        self, tenant: str, approval_id: str, *, approved: bool, by: Principal | None = None, reason: str = ""
    ) -> Approval:
        """Answer a question, once. Raises `RequestError` if it is unknown, was answered before, or has expired."""
        ...

    async def use(self, tenant: str, approval_id: str, *, digest: str, policy_version: str) -> Approval:
        """Take an approved call through the gate. Raises `RequestError` unless the approval holds for this call now."""
        ...
