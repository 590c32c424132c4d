"""Events of a run, one fact each. The engine emits them; the trail, telemetry and the listeners of a stream receive them in
order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from toolcaddie.core.approval import Approval
from toolcaddie.core.claims import Claim
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.message import Attempt, CallDelta, Message
from toolcaddie.core.run import RunResult, RunState
from toolcaddie.core.selection import Classification, Selection
from toolcaddie.core.tool import Ending, JsonObject, ToolCall, ToolResult
from toolcaddie.core.usage import Usage
from toolcaddie.core.vocabulary import WireName


class RunStarted(Struct, frozen=True, kw_only=True):
    run_id: str
    principal: Principal
    preset: str
    model: str
    message: str
    """The text to answer."""
    catalog_version: str
    catalog_size: int
    history: tuple[Message, ...] = ()
    """Earlier messages that selection reads."""
    conversation: str = ""
    """Digest that all runs of a conversation share; empty: the request belongs to none."""


class RequestClassified(Struct, frozen=True, kw_only=True):
    """A first stage (a model call that names the categories of a request) was called, skipped, or failed. Its tokens are in the
    usage of the run."""

    run_id: str
    classification: Classification


class ToolsSelected(Struct, frozen=True, kw_only=True):
    run_id: str
    selection: Selection


class ToolsDelivered(Struct, frozen=True, kw_only=True):
    """The tool array of a round; sent only when it differs from the round before."""

    run_id: str
    round: int
    delivery: Delivery


class ModelAsked(Struct, frozen=True, kw_only=True):
    run_id: str
    round: int
    provider: str
    model: str
    tools: int


class TextDelta(Struct, frozen=True, kw_only=True):
    """A piece of the answer, live; not stored in the trail. `raw`: the provider's chunk of chat completions. `event`: the
    provider's event of another wire (API format), which `wire` names. `ending`: the kind of the text, if a tool ended the run
    with it."""

    run_id: str
    text: str
    raw: JsonObject | None = None
    event: bytes = b""
    wire: WireName | None = None
    ending: Ending | Literal[""] = ""


class ClientCallDelta(Struct, frozen=True, kw_only=True):
    """A piece of a call to one of the caller's tools, live; not stored in the trail. `delta.index` counts only calls to the
    caller's tools."""

    run_id: str
    delta: CallDelta


class ModelAnswered(Struct, frozen=True, kw_only=True):
    """A model answered. `attempts`: every request made for the answer, if there were several. `provider`: the provider that
    answered, if it is not the one that was asked."""

    run_id: str
    round: int
    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    model: str
    seconds: float
    provider: str = ""
    attempts: tuple[Attempt, ...] = ()


class MetaCalled(Struct, frozen=True, kw_only=True):
    """The engine answered the call of a meta tool; such a call has no other event. `added`: names of the tools that it made
    available."""

    run_id: str
    call: ToolCall
    result: ToolResult
    added: tuple[str, ...] = ()


class CallDecided(Struct, frozen=True, kw_only=True):
    run_id: str
    call: ToolCall
    decision: Decision
    dropped: tuple[str, ...] = ()
    """Arguments from the model that only the application may inject."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the model had read."""
    effects: tuple[str, ...] = ()
    """The effects of the call on the world, by the tool's source (`Assessment.effects`)."""


class ApprovalClosed(Struct, frozen=True, kw_only=True):
    """A question about a call was approved or refused, or has expired. A person may answer while the run is paused."""

    run_id: str
    approval: Approval


class ApprovalApplied(Struct, frozen=True, kw_only=True):
    """The answer to a question decides a call of this run: the call may run, or is refused. Another run may have put the
    question."""

    run_id: str
    call_id: str
    approval: Approval


class CallIntended(Struct, frozen=True, kw_only=True):
    """A tool is about to run. If the tool is not idempotent, the event is on disk before the tool runs."""

    run_id: str
    call: ToolCall


class CallProgressed(Struct, frozen=True, kw_only=True):
    """Progress of a running call, live; not stored in the trail."""

    run_id: str
    call_id: str
    tool: str
    done: float
    total: float | None = None
    """None: unknown."""
    message: str = ""


class CallFinished(Struct, frozen=True, kw_only=True):
    run_id: str
    call: ToolCall
    result: ToolResult
    source: str
    seconds: float
    number: int
    """Number of the call among the executed calls of the run, from 1."""


class CallUnknown(Struct, frozen=True, kw_only=True):
    """The run ended after `CallIntended` and before the call's result, so the effect of the call is unknown."""

    run_id: str
    call: ToolCall
    reason: str


class CallSettled(Struct, frozen=True, kw_only=True):
    """A person has found out what became of a call whose outcome was unknown."""

    run_id: str
    call: ToolCall
    took_effect: bool
    text: str
    """What the model reads in addition."""
    reason: str
    """How the person knows."""
    by: Principal


class LimitReached(Struct, frozen=True, kw_only=True):
    run_id: str
    limit: str
    detail: str


class RunPaused(Struct, frozen=True, kw_only=True):
    """The run waits for a person; `resume` continues from `state`."""

    run_id: str
    state: RunState


class RunResumed(Struct, frozen=True, kw_only=True):
    """A stored run continues."""

    run_id: str
    principal: Principal
    answered: tuple[str, ...] = ()
    """Ids of the calls that got a decision or a result."""


class ClaimsUnsupported(Struct, frozen=True, kw_only=True):
    """The answer says that something was done, although no call that could have done it succeeded. The end of the run follows."""

    run_id: str
    claims: tuple[Claim, ...]


class RunFinished(Struct, frozen=True, kw_only=True):
    run_id: str
    result: RunResult


class RunFailed(Struct, frozen=True, kw_only=True):
    run_id: str
    error: str
    kind: str
    """The exception's class name."""
    attempts: tuple[Attempt, ...] = ()
    """Every failed request, if the error is a provider's."""
    state: RunState | None = None


class SourceStatus(Struct, frozen=True, kw_only=True):
    """The state of a source has changed. It does not belong to a run."""

    source: str
    status: Literal["connected", "changed", "failed", "closed"]
    """`changed`: its tools are different."""
    tools: int = 0
    """Number of the source's tools now."""
    detail: str = ""
    """The failure, in words for an operator."""


RunEvent = (
    RunStarted
    | RequestClassified
    | ToolsSelected
    | ToolsDelivered
    | ModelAsked
    | TextDelta
    | ClientCallDelta
    | ModelAnswered
    | MetaCalled
    | CallDecided
    | ApprovalClosed
    | ApprovalApplied
    | CallIntended
    | CallProgressed
    | CallFinished
    | CallUnknown
    | CallSettled
    | LimitReached
    | RunPaused
    | RunResumed
    | ClaimsUnsupported
    | RunFinished
    | RunFailed
)

Emit = Callable[[RunEvent], Awaitable[None]]
"""Passes an event to its sinks and listeners, and returns when they are done."""
