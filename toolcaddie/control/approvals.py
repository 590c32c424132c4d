"""Approvals: questions to a person whether a call may run. Each is stored when a policy asks, answered once and used once.

Every change is a compare-and-set on one document. If two people answer at the same time, the second gets an error, and an
answer is never used for two calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.approval import Approval, ApprovalStatus
from toolcaddie.core.assessment import Assessment
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import ApprovalClosed, Emit
from toolcaddie.core.run import PendingCall
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.tool import Tool
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import ApprovalStore, Store
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import visible_line

_KIND = "approval"
_EQUAL = "approval-equal"
"""Kind of the documents that name the last approval for exactly the same call."""
_LOOKUP_SECONDS = 30 * 86_400.0
"""Seconds for which an approval can still be looked up after it has expired."""
_PAGE = 200
"""Number of documents read from the store at once."""


def question(request: CallRequest, decision: Decision, *, now: float, expiry: float) -> Approval:
    """Returns a new open approval for a call about which the policy asks. It expires after `expiry` seconds."""
    return Approval(
        id=f"approval_{uuid.uuid4().hex}",
        run_id=request.context.run_id,
        call_id=request.call.id,
        tool=request.tool.name,
        arguments=request.arguments,
        digest=digest_of(request),
        policy_version=decision.policy_version,
        principal=request.context.principal,
        subject=_subject(request),
        preview=_preview(request.assessment),
        effects=request.assessment.effects,
        restrictions_kept=True,
        reason=decision.reason,
        rule=decision.rule,
        taint=request.state.taint,
        created=now,
        expires=now + expiry,
    )


def _preview(assessment: Assessment) -> str:
    """Returns what a person is shown of a call: its effects, one in a line, and then the preview by its source."""
    effects = "\n".join(f"effect: {visible_line(effect)}" for effect in assessment.effects)
    return "\n\n".join(filter(None, (effects, assessment.preview)))


def _subject(request: CallRequest) -> Tool:
    """Returns the tool without its texts. Of its schema, the types of the arguments of this call are left."""
    tool = request.judged_tool
    properties = tool.input_schema.get("properties") or {}
    types = {
        name: {"type": schema["type"]}
        for name, schema in properties.items()
        if name in request.arguments and isinstance(schema, Mapping) and "type" in schema
    }
    return Tool(
        name=tool.name,
        input_schema={"properties": types},
        category=tool.category,
        source=tool.source,
        annotations=tool.annotations,
        tags=tool.tags,
        untrusted=tool.untrusted,
        roles=tool.roles,
        scope=tool.scope,
        creator=tool.creator,
        tenant=tool.tenant,
    )


def digest_of(request: CallRequest) -> str:
    """Returns a digest of the tool, its exact arguments, without injected ones, which the model does not choose, and what the
    source says of the call: preview, effects and question. The tool is its definition and what runs it, so that another tool of
    the same name is not meant."""
    tool, annotations = request.judged_tool, request.judged_tool.annotations
    definition = [
        tool.name,
        tool.description,
        tool.input_schema,
        tool.source,
        tool.original,
        tool.category,
        tool.untrusted,
        tool.backing,
        [annotations.read_only, annotations.destructive, annotations.idempotent, annotations.open_world],
    ]
    assessment = request.assessment
    preview = [assessment.preview] if assessment.preview else []
    judged = [{"effects": assessment.effects, "question": assessment.question}]
    said = judged if assessment.effects or assessment.question else []
    return hashlib.sha256(canonical_json([definition, request.arguments, *preview, *said])).hexdigest()


class StoredApprovals:
    """Implements `ports.ApprovalStore` on any `Store`. Each answer is passed to `emit`; without `emit`, none is recorded.

    `redact` removes secrets from the arguments, reasons, previews and effects that are stored; the digest is that of the exact
    ones."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        emit: Emit | None = None,
        redact: Callable[[Any], Any] = KNOWN.clean,
    ) -> None:
        self._redact = redact
        self._store = store
        self._clock = clock
        self._emit = emit

    async def open(self, approval: Approval) -> None:
        shown = replace(
            approval,
            arguments=self._redact(approval.arguments),
            reason=self._redact(approval.reason),
            preview=self._redact(approval.preview),
            effects=tuple(map(self._redact, approval.effects)),
        )
        value = msgspec.json.encode(shown)
        if not await self._store.compare_and_set(
            _KIND, _key_of(approval), value, expected=None, ttl=self._ttl(approval)
        ):
            raise RequestError(f"there is an approval {approval.id!r} already", param="approval")
        await self._store.put(_EQUAL, _equal_key(approval), approval.id.encode(), ttl=self._ttl(approval))

    async def equal(self, approval: Approval) -> Approval | None:
        approval_id = await self._store.get(_EQUAL, _equal_key(approval))
        return None if approval_id is None else await self.get(approval.principal.tenant, approval_id.decode())

    async def get(self, tenant: str, approval_id: str) -> Approval | None:
        value = await self._store.get(_KIND, _key(tenant, approval_id))
        return None if value is None else self._decoded(value)

    async def list(self, tenant: str, *, status: ApprovalStatus | None = None, limit: int = 100) -> Sequence[Approval]:
        matching: list[Approval] = []
        cursor: str | None = None
        while True:
            page = await self._store.scan(_KIND, prefix=_key(tenant, ""), cursor=cursor, limit=_PAGE)
            approvals = [self._decoded(document.value) for document in page.documents]
            matching += [approval for approval in approvals if status in (None, approval.status)]
            cursor = page.cursor
            if cursor is None:
                return sorted(matching, key=lambda approval: (approval.created, approval.id))[:limit]

    async def answer(
        self, tenant: str, approval_id: str, *, approved: bool, by: Principal | None = None, reason: str = ""
    ) -> Approval:
        value, approval = await self._stored(tenant, approval_id)
        if approval.status != "open":
            raise RequestError(closed(approval), param="approval", code="approval_closed")
        answered = replace(
            approval,
            status="approved" if approved else "refused",
            answered=self._clock(),
            answered_by=by,
            answer_reason=self._redact(reason),
        )
        answered = await self._changed(answered, expected=value)
        if self._emit is not None:
            try:
                await self._emit(ApprovalClosed(run_id=approval.run_id, approval=answered))
            except BaseException:  # an answer that is not on record must not let a call run
                with contextlib.suppress(RequestError):
                    await asyncio.shield(self._changed(approval, expected=msgspec.json.encode(answered)))
                raise
        return answered

    async def remove(self, approval: Approval) -> None:
        """Erases a question and its answer."""
        await self._store.delete(_KIND, _key_of(approval))
        await self._store.delete(_EQUAL, _equal_key(approval))

    async def use(
        self, tenant: str, approval_id: str, *, digest: str, policy_version: str, used_by: str = ""
    ) -> Approval:
        value, approval = await self._stored(tenant, approval_id)
        if problem := mismatch(approval, digest=digest, policy_version=policy_version):
            raise RequestError(problem, param="approval", code="approval_invalid")
        if approval.status != "approved":
            raise RequestError(closed(approval), param="approval", code="approval_closed")
        return await self._changed(replace(approval, status="used", used_by=used_by), expected=value)

    async def _stored(self, tenant: str, approval_id: str) -> tuple[bytes, Approval]:
        value = await self._store.get(_KIND, _key(tenant, approval_id))
        if value is None:
            raise unknown_approval(approval_id)
        return value, self._decoded(value)

    async def _changed(self, approval: Approval, *, expected: bytes) -> Approval:
        value = msgspec.json.encode(approval)
        if await self._store.compare_and_set(
            _KIND, _key_of(approval), value, expected=expected, ttl=self._ttl(approval)
        ):
            return approval
        raise RequestError(
            f"approval {approval.id} was answered or used by somebody else at this moment; read it again",
            param="approval",
            code="approval_closed",
        )

    def _decoded(self, value: bytes) -> Approval:
        """Returns the stored approval as it is now: `expired` if its time has passed before it was used."""
        return msgspec.json.decode(value, type=Approval).at(self._clock())

    def _ttl(self, approval: Approval) -> float:
        return max(1.0, approval.expires - self._clock()) + _LOOKUP_SECONDS


def mismatch(approval: Approval, *, digest: str, policy_version: str) -> str:
    """Returns the reason why an approval does not hold for this call under this policy; empty: it holds."""
    if approval.digest != digest:
        return f"approval {approval.id} was given for other arguments of {approval.tool}, or another version of it; ask again"
    if approval.policy_version != policy_version:
        return (
            f"approval {approval.id} was asked for under policy {approval.policy_version!r}, "
            f"which is {policy_version!r} now; ask again"
        )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCalls:
    """The calls of a waiting run after its questions were answered."""

    calls: tuple[PendingCall, ...]
    expired: tuple[Approval, ...]
    """Questions that expired without an answer."""


async def answered_calls(
    pending: Sequence[PendingCall],
    answers: Mapping[str, bool],
    approvals: ApprovalStore,
    *,
    tenant: str,
    policy_version: str,
    by: Principal | None = None,
    reason: str = "",
) -> AnsweredCalls:
    """Returns the calls of a paused run. A call whose question is answered, in `answers` or in the store, waits no longer.

    `answers` maps call ids to True (approved) or False (refused). They are recorded only if every question has an answer. An
    approval under another version of the policy does not count: the current policy decides again, and may ask again. A
    refusal always counts. Raises `RequestError` for an answer to a question that has expired or has another answer.
    """
    stored = {item.call.id: await _approval_of(item, approvals, tenant) for item in pending if _asks(item)}
    for call_id, approval in stored.items():
        if call_id in answers:
            _check_answer(approval, approved=answers[call_id], call_id=call_id)
    calls = tuple(_answered_call(item, answers, stored.get(item.call.id), policy_version) for item in pending)
    if not any(item.waiting for item in calls):
        for item in calls:
            approval = stored.get(item.call.id) if item.approval else None
            if item.call.id in answers and approval is not None and approval.status == "open":
                await _answer(approvals, approval, approved=answers[item.call.id], by=by, reason=reason)
    expired = (approval for approval in stored.values() if approval is not None and approval.status == "expired")
    return AnsweredCalls(calls=calls, expired=tuple(expired))


async def _answer(
    approvals: ApprovalStore, approval: Approval, *, approved: bool, by: Principal | None, reason: str
) -> None:
    """Records an answer; the same answer again does nothing. Of several callers who resume the run, one can claim it."""
    tenant = approval.principal.tenant
    try:
        await approvals.answer(tenant, approval.id, approved=approved, by=by, reason=reason)
    except RequestError:
        current = await approvals.get(tenant, approval.id)
        if current is None or current.status not in (("approved", "used") if approved else ("refused",)):
            raise


def _asks(item: PendingCall) -> bool:
    return item.waiting == "approval"


async def _approval_of(item: PendingCall, approvals: ApprovalStore, tenant: str) -> Approval | None:
    return await approvals.get(tenant, item.approval) if item.approval else None


def _check_answer(approval: Approval | None, *, approved: bool, call_id: str) -> None:
    """Raises `RequestError` if the question has expired or has another answer."""
    remedy = "resume the run without an answer to this call, and it is asked about again"
    if approval is None or approval.status == "expired":
        raise RequestError(f"the question about {call_id} has expired; {remedy}", param="approvals", code="expired")
    if approval.status != "open" and approved != (approval.status != "refused"):
        raise RequestError(closed(approval), param="approvals", code="approval_closed")


def _answered_call(
    item: PendingCall, answers: Mapping[str, bool], approval: Approval | None, policy_version: str
) -> PendingCall:
    if not _asks(item):
        return item
    if approval is None or approval.status == "expired":
        return replace(item, waiting="", approval="")
    answer = answers.get(item.call.id)
    if approval.policy_version != policy_version and approval.status != "refused" and answer is not False:
        return replace(item, waiting="", approval="")
    return item if approval.status == "open" and answer is None else replace(item, waiting="")


def unknown_approval(approval_id: str) -> RequestError:
    return RequestError(f"there is no approval {approval_id[:80]!r}", param="approval", code="unknown_approval")


def closed(approval: Approval) -> str:
    """Returns the state of a question as the reason why it cannot be answered or used now."""
    by = f" by {approval.answered_by.id}" if approval.answered_by else ""
    match approval.status:
        case "open":
            return f"approval {approval.id} is not answered yet"
        case "expired":
            return f"approval {approval.id} has expired; resume the run to ask again"
        case "used":
            return f"approval {approval.id} was approved{by} and used already; an approval counts once"
        case status:
            return f"approval {approval.id} was {status}{by} already; an answer cannot be changed"


def _equal_key(approval: Approval) -> str:
    caller = approval.principal
    same = [*caller.owner, caller.bot, caller.role, approval.digest, approval.policy_version]
    return hashlib.sha256(canonical_json(same)).hexdigest()


def _key_of(approval: Approval) -> str:
    return _key(approval.principal.tenant, approval.id)


def _key(tenant: str, approval_id: str) -> str:
    """Returns a key with a digest of the tenant, because the name of a tenant may be longer than a key."""
    return f"{hashlib.sha256(tenant.encode()).hexdigest()[:32]}/{approval_id}"
