"""Judges one call: first its source does, by the arguments, then the policy."""

from __future__ import annotations

from typing import Any

from toolcaddie.control.policy.current import CurrentPolicy
from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.control import Decision
from toolcaddie.core.events import CallDecided, Emit
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import AssessingSource
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)


async def assessment_of(
    tool: Tool, arguments: dict[str, Any], context: RunContext, source: AssessingSource | None
) -> Assessment:
    """Returns the source's judgement of a call. A source that fails at it refuses the call."""
    if source is None:
        return NOTHING
    try:
        return await source.assess(tool, arguments, context)
    except Exception as error:  # code of a source: whatever it raises, the call does not run
        log.exception("assess_raised", tool=tool.name, source=tool.source)
        return Assessment(
            refusal=KNOWN.redact(f"{tool.name} cannot judge this call: {type(error).__name__}: {error}")[:2_000]
        )


async def recorded_decision(
    request: CallRequest, policy: CurrentPolicy, emit: Emit, *, dropped: tuple[str, ...]
) -> Decision:
    """Records the decision on a call, and returns it. `dropped`: names of arguments that were left out."""
    decision = await _decision(request, policy)
    await emit(
        CallDecided(
            run_id=request.context.run_id,
            call=request.call,
            decision=decision,
            dropped=dropped,
            taint=request.state.taint,
        )
    )
    return decision


async def _decision(request: CallRequest, policy: CurrentPolicy) -> Decision:
    """Returns the source's refusal, or what the policy decides; an `allow` becomes `ask` if the source wants a person asked."""
    refusal, question = request.assessment.refusal, request.assessment.question
    if refusal:
        return Decision(verdict="deny", reason=refusal, rule="source", policy_version=policy.version)
    decision = await policy.decide(request)
    if question and decision.verdict == "allow":
        return replace(decision, verdict="ask", reason=question, rule="source")
    return decision
