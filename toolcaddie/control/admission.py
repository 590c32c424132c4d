"""The gates of a call, in a fixed order:

    unwrap `execute_tool` once -> visibility -> check the arguments -> the source's judgement -> policy -> approval

Every call of a tool passes them: in a run, inside a wrapper (a meta tool such as `execute_tool` that stands for another call),
without a model through `ToolDesk`, and again when its run is resumed. A model's calls of other meta tools do not pass them,
because they run nothing; the tools that they reveal are called through these gates as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from toolcaddie.control.approvals import digest_of, mismatch, question
from toolcaddie.control.arguments import arguments_of
from toolcaddie.control.idempotency import with_key
from toolcaddie.control.judging import assessment_of, recorded_decision
from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.control.visibility import may_use
from toolcaddie.core.approval import EXPIRY_SECONDS, Approval
from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import View, tool_digest
from toolcaddie.core.control import Decision
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import ApprovalApplied, ApprovalClosed, Emit
from toolcaddie.core.run import PendingCall, RunContext, RunState
from toolcaddie.core.tool import CLIENT_SOURCE, Tool, ToolCall, ToolResult, failed
from toolcaddie.meta.lookup import unknown_tool
from toolcaddie.meta.registry import OURS, MetaTools, is_meta
from toolcaddie.ports import ApprovalStore, Approver, AssessingSource, CallWrapper, ImpersonalApprover, MetaOffer
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import sentence

_NOT_APPROVED = "A person did not approve this call."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A meta tool that stands for another call, and its definition."""

    tool: CallWrapper
    definition: Tool


def wrappers_of(tools: MetaTools) -> Mapping[str, Wrapper]:
    """Returns the wrappers among the meta tools, by name."""
    return {
        name: Wrapper(tool=tool, definition=tool.definition(MetaOffer()))
        for name, tool in tools.items()
        if isinstance(tool, CallWrapper)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Policy, approvals and wrappers through which every call of a runtime passes."""

    policy: CurrentPolicy
    approvals: ApprovalStore
    source_of: Callable[[str], AssessingSource] | None = None
    """Returns the source of the tools of a tenant, which judges each call by its arguments before the policy does. None: nothing
    does."""
    approver: Approver | None = None
    wrappers: Mapping[str, Wrapper] = field(default_factory=lambda: wrappers_of(OURS))
    bounds: Bounds = DEFAULT
    clock: Callable[[], float] = time.time
    approval_expiry: float = EXPIRY_SECONDS
    """Seconds after which a question to a person expires."""


class Admitted(Struct, frozen=True, kw_only=True):
    """A call past every gate: it may run."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    whole: bool = False
    """True: a program makes the call, and reads the whole result."""
    approved: bool = False
    """True: the call runs because a person approved it, and only with the tool that the person was asked about."""


async def admit(
    pending: PendingCall, *, gates: Gates, context: RunContext, state: RunState, emit: Emit
) -> Admitted | PendingCall:
    """Returns the admitted call, or the pending call with a result or with what it waits for.

    A call that waits for the caller is unwrapped, because callers know only the names of their own tools.
    """
    call = await unwrapped(pending.call, gates, context.view, state.meta)
    if isinstance(call, ToolResult):
        return replace(pending, result=call)
    tool = context.view.get(call.name)
    if tool is None or not may_use(tool, context.principal):
        return replace(
            pending,
            result=changed_tool(call.name) if pending.tool_digest else unknown_tool(call.name, context.view),
        )
    if pending.tool_digest and pending.tool_digest != tool_digest(tool):
        return replace(pending, result=changed_tool(call.name))
    if tool.source == CLIENT_SOURCE:
        return replace(pending, call=call, waiting="client")
    arguments = await arguments_of(call, tool, bounds=gates.bounds)
    if isinstance(arguments, ToolResult):
        return replace(pending, result=arguments)
    source = None if gates.source_of is None else gates.source_of(context.principal.tenant)
    assessment = await assessment_of(tool, arguments.values, replace(context, taint=state.taint), source)
    request = CallRequest(
        call=call, tool=tool, arguments=arguments.values, context=context, state=state, assessment=assessment
    )
    decision = await recorded_decision(request, gates.policy, emit, dropped=arguments.dropped)
    if decision.verdict == "deny":
        return replace(pending, result=failed(f"Not allowed: {sentence(decision.reason or decision.rule)}", "denied"))
    approved = decision.verdict == "ask" or bool(pending.approval)
    if approved:
        unapproved = await _approval_gate(pending, request, decision, gates, emit)
        if unapproved is not None:
            return unapproved
    values = with_key(tool, arguments.values, run_id=context.run_id, call_id=call.id)
    return Admitted(call=call, tool=tool, arguments=values, whole=bool(pending.program), approved=approved)


def changed_tool(name: str) -> ToolResult:
    """Returns the result of a call whose tool is not the one that a person was asked about."""
    return failed(
        f"{name} has changed since a person was asked about this call, so the answer does not count and the call did not run. "
        "Call the tool as it is now, and a new question is asked.",
        "denied",
    )


async def unwrapped(call: ToolCall, gates: Gates, view: View, offered: Collection[str]) -> ToolCall | ToolResult:
    """Returns the call inside a wrapper, unwrapped once. Other calls are returned unchanged; a wrong call gives a result.

    `offered`: names of the meta tools that the model was sent.
    """
    wrapper = gates.wrappers.get(call.name)
    if wrapper is None or not is_meta(call.name, view, offered):
        return call
    arguments = await arguments_of(call, wrapper.definition, bounds=gates.bounds)
    if isinstance(arguments, ToolResult):
        return arguments
    inner = wrapper.tool.unwrapped(call, arguments.values)
    if is_meta(inner.name, view, offered):
        return failed(f"{inner.name} cannot be run through {call.name}; call it directly.", "unknown_tool")
    return inner


async def _approval_gate(
    pending: PendingCall, request: CallRequest, decision: Decision, gates: Gates, emit: Emit
) -> PendingCall | None:
    """Returns None for an approved call. Any other call is returned as refused or as waiting for an answer.

    A refusal counts even if the policy has changed and now allows the call.
    """
    tenant = request.context.principal.tenant
    earlier = await gates.approvals.get(tenant, pending.approval) if pending.approval else None
    digest, version = digest_of(request), decision.policy_version
    if earlier is not None and earlier.status == "refused":
        await _record_applied(earlier, request, emit)
        return _refusal(pending)
    if decision.verdict == "allow":
        return None
    if earlier is not None and not mismatch(earlier, digest=digest, policy_version=version):
        match earlier.status:
            case "approved":
                await _used(earlier, request, gates, emit)
                return None
            case "used" if earlier.used_by in ("", _place(request)):
                # A process used the approval and died before the call acted: had the call acted, its outcome would be stored.
                # Only the process that has claimed the run comes here.
                await _record_applied(earlier, request, emit)
                return None
            case "open":
                return replace(pending, waiting="approval", decision=decision)
    return await _put_question(pending, request, decision, gates, emit)


async def _put_question(
    pending: PendingCall, request: CallRequest, decision: Decision, gates: Gates, emit: Emit
) -> PendingCall | None:
    """Asks the approver, and stores the question if there is no answer yet. If the same call of the same principal has been asked
    about already, that question counts, if it named all the untrusted tools that were read before this call."""
    approval = question(request, decision, now=gates.clock(), expiry=gates.approval_expiry)
    equal = await gates.approvals.equal(approval)
    if equal is not None and equal.run_id == approval.run_id:
        equal = None  # two equal calls of one run are two questions
    if equal is not None and not set(approval.taint) <= set(equal.taint):
        equal = None  # the person did not know that strangers may have caused the call
    if equal is not None and equal.status == "approved":
        with suppress(RequestError):  # another call uses it at this moment, so there is a question for this one
            await _used(equal, request, gates, emit)
            return None
    approved = None if gates.approver is None else await gates.approver.approve(approval)
    if approved is None:
        if equal is not None and equal.status == "open":
            approval = equal
        else:
            await gates.approvals.open(approval)
        return replace(
            pending, waiting="approval", decision=decision, approval=approval.id, tool_digest=tool_digest(request.tool)
        )
    answered = replace(approval, status="approved" if approved else "refused", answered=gates.clock())
    await emit(ApprovalClosed(run_id=approval.run_id, approval=answered))
    if approved:
        return None
    return _refusal(
        pending, gates.approver.refusal if isinstance(gates.approver, ImpersonalApprover) else _NOT_APPROVED
    )


async def _used(approval: Approval, request: CallRequest, gates: Gates, emit: Emit) -> None:
    """Uses an approval for this call, and records it. Raises `RequestError` if another call uses it at this moment."""
    await gates.approvals.use(
        request.context.principal.tenant,
        approval.id,
        digest=approval.digest,
        policy_version=approval.policy_version,
        used_by=_place(request),
    )
    await _record_applied(approval, request, emit)


async def _record_applied(approval: Approval, request: CallRequest, emit: Emit) -> None:
    """Records in the trail of this run whose answer decides the call; another run may have put the question."""
    await emit(ApprovalApplied(run_id=request.context.run_id, call_id=request.call.id, approval=approval))


def _place(request: CallRequest) -> str:
    return f"{request.context.run_id}/{request.call.id}"


def _refusal(pending: PendingCall, text: str = _NOT_APPROVED) -> PendingCall:
    return replace(pending, result=failed(text, "denied"))
