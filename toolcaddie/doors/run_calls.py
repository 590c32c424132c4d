"""Finds the state of each call of a run, and the ending of the run, in the events of the trail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcaddie.core.storage import EventRecord
from toolcaddie.runtime.settling import SETTLED, UNKNOWN
from toolcaddie.util.replacing import replace

CallState = Literal["waiting", "refused", "under way", "done", "failed", "unknown"]

CALL_KINDS = ("call_intended", "call_finished", UNKNOWN, SETTLED)
"""Kinds of the events from which the state of a call follows."""
_GATE_KINDS = ("call_decided", "approval_closed", "approval_applied", "run_finished", "run_failed")
"""Kinds of the events that say whether a call may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSummary:
    """A call and its outcome. A call whose outcome is not recorded is `under way`, or `unknown` once it is recorded that the
    outcome will never be known, because the process was killed or the run was cancelled. A call that did not begin is `waiting`
    for a person, or `refused`, by the policy or by a person."""

    id: str
    name: str
    arguments: str
    state: CallState
    detail: str = ""
    """The result of the call, or the reason why it is unknown."""
    effects: tuple[str, ...] = ()
    """The effects on the world that the tool's source named before the call."""


def calls_of(events: Sequence[EventRecord]) -> Sequence[CallSummary]:
    """Returns the calls of one run in the order of their start. A call with a recorded outcome keeps it, even if a later event
    says that its outcome is unknown."""
    calls: dict[str, CallSummary] = {}
    for event in events:
        if event.kind in _GATE_KINDS:
            _pass_gate(calls, event)
        if event.kind not in CALL_KINDS:
            continue
        data, before = event.data, calls.get(event.data["id"])
        if event.kind == UNKNOWN and before is not None and before.state in ("done", "failed"):
            continue
        calls[data["id"]] = CallSummary(
            id=data["id"], name=data["name"], arguments=data["arguments"], state=_state(event), detail=_detail(data)
        )
    effects = {event.data["id"]: event.data["effects"] for event in events if event.data.get("effects")}
    return [replace(call, effects=tuple(effects.get(call.id, ()))) for call in calls.values()]


def _pass_gate(calls: dict[str, CallSummary], event: EventRecord) -> None:
    """Adds a call that a policy refuses or asks about, and changes the state of one that a person refuses."""
    data = event.data
    match event.kind, data.get("verdict") or data.get("status"):
        case "call_decided", "ask":
            calls[data["id"]] = _not_begun(data, "waiting")
        case "call_decided", "deny":
            calls[data["id"]] = _not_begun(data, "refused")
        case (("approval_closed" | "approval_applied"), "refused") if data["id"] in calls:
            by = f"by {data['by']}" if data["by"] else "without a person"
            calls[data["id"]] = replace(calls[data["id"]], state="refused", detail=f"{by} {data['reason']}".rstrip())
        case (("run_finished" | "run_failed"), _):
            for call in calls.values():
                if call.state == "waiting":
                    calls[call.id] = replace(call, state="refused", detail="the run ended without it")
        case _:
            pass


def _not_begun(data: Mapping[str, Any], state: CallState) -> CallSummary:
    return CallSummary(
        id=data["id"],
        name=data["name"],
        arguments=data["arguments"],
        state=state,
        detail=data["reason"] or f"rule {data['rule']}",
    )


def _state(event: EventRecord) -> CallState:
    """Returns the state of a call after one of its events, which is of a kind in `CALL_KINDS`."""
    match event.kind:
        case "call_unknown":
            return "unknown"
        case "call_settled":
            return "done" if event.data["took_effect"] else "failed"
        case "call_finished":
            return "failed" if event.data.get("error") else "done"
        case _:
            return "under way"


def _detail(data: Mapping[str, Any]) -> str:
    if "took_effect" in data:
        return f"settled by {data['by']}: {data['text'] or data['reason']}".rstrip(": ")
    return str(data.get("reason") or data.get("content") or "")


def ending_in(events: Iterable[EventRecord]) -> str:
    """Returns the kind of text with which a tool ended a recorded run; empty: no tool ended it."""
    return next((str(event.data.get("ending", "")) for event in events if event.kind == "run_finished"), "")
