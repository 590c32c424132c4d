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


_SOURCE = "source"
"""Rule of the decisions that the tool's source makes, and not the policy."""


async def assessment_of(
    tool: Tool, arguments: dict[str, Any], context: RunContext, source: AssessingSource | None
) -> Assessment:
    """Returns the source's judgement of a call. A source that fails at it refuses the call."""
    if source is None:
        return NOTHING
    try:
        return _checked(tool, await source.assess(tool, arguments, context))
    except Exception as error:  # code of a source: whatever it raises, the call does not run
        log.exception("assess_raised", tool=tool.name, source=tool.source)
        return Assessment(
            refusal=KNOWN.redact(f"{tool.name} cannot judge this call: {type(error).__name__}: {error}")[:2_000]
        )


def _checked(tool: Tool, assessment: Assessment) -> Assessment:
    """Returns a judgement whose effects rules can read. Any other one raises `TypeError`."""
    effects: Any = assessment.effects  # a source may put anything here, whatever the type says
    if isinstance(effects, tuple) and all(isinstance(effect, str) for effect in effects):
        return assessment
    raise TypeError(f"the effects of {tool.name} must be a tuple of texts, not {effects!r:.80}")


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
            effects=request.assessment.effects,
        )
    )
    return decision


async def _decision(request: CallRequest, policy: CurrentPolicy) -> Decision:
    """Returns the source's refusal, or what the policy decides. Where the policy does not deny the call, the source can have a
    person asked."""
    if refusal := request.assessment.refusal:
        return Decision(verdict="deny", reason=refusal, rule=_SOURCE, policy_version=policy.version)
    decision, question = await policy.decide(request), request.assessment.question
    if not question or decision.verdict == "deny":
        return decision
    if decision.verdict == "allow":
        return replace(decision, verdict="ask", reason=question, rule=_SOURCE)
    return replace(decision, reason="; ".join(filter(None, (decision.reason, question))))
