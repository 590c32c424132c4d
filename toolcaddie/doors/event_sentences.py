"""Describes each row of the trail in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.texts import counted, local_time, shortened

_NAMES_SHOWN = 8
_DETAIL_SHOWN = 100

Data = Mapping[str, Any]
"""The recorded data of one event, whose keys depend on the kind of the event."""


def _start_sentence(data: Data) -> str:
    return f"{data['principal']['id']}, preset {data['preset']}, {counted(data['catalog_size'], 'tool')}: {data['message']}"


def _selection_sentence(data: Data) -> str:
    counts = data["counts"]
    names = _names([tool["name"] for tool in data["tools"]])
    return f"{counts['selected']} of {counts['catalog']}" + (f": {names}" if names else "")


def _delivery_sentence(data: Data) -> str:
    tokens = data["tokens"]
    meta = f", with {', '.join(data['meta'])}" if data["meta"] else ""
    behind = f"; {_names(data['added'])} by {data['added_by']}" if data.get("added") else ""
    return f"{data['strategy']}: {counted(len(data['tools']), 'tool')}{meta}{behind}; {tokens['sent']} of {tokens['all']} tokens"


def _request_sentence(data: Data) -> str:
    return f"round {data['round']}: {data['model'] or data['provider']} with {counted(data['tools'], 'tool')}"


def _answer_sentence(data: Data) -> str:
    calls = ", ".join(call["name"] for call in data["calls"])
    text = f"calls {calls}" if calls else str(data["text"])
    attempts = _attempts_text(data.get("attempts", ()))
    source = attempts or (f"{data['provider']}:{data['model']} answered" if data.get("provider") else "")
    return f"{source}: {text}" if source else text


def _attempts_text(attempts: Sequence[Data]) -> str:
    return "; ".join(
        attempt_text(attempt["provider"], attempt["model"], attempt["how"], attempt["outcome"], attempt["detail"])
        for attempt in attempts
    )


def _meta_sentence(data: Data) -> str:
    added = f"; added {_names(data['added'])}" if data["added"] else ""
    return f"{data['name']} {data['arguments']}{added}"


def _decision_sentence(data: Data) -> str:
    reason = f": {data['reason']}" if data["reason"] else ""
    # Rows of earlier versions have no version of the policy.
    version = f" of policy {data['policy_version']}" if data.get("policy_version") else ""
    effects = f" ({_names(data['effects'])})" if data.get("effects") else ""
    return f"{data['verdict']} {data['name']}{effects} by rule {data['rule']}{version}{reason}"


def _approval_sentence(data: Data) -> str:
    by = f" by {data['by']}" if data["by"] else ""
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"{data['name']} {data['status']}{by} at {local_time(data['closed'])}{reason}"


def _applied_sentence(data: Data) -> str:
    by = f", answered by {data['by']}" if data["by"] else ", answered by the application"
    channel = f" ({data['channel']})" if data["channel"] else ""
    return f"{data['name']} {data['status']} by {data['approval']} of {data['asked_in']}{by}{channel}"


def _intent_sentence(data: Data) -> str:
    return f"{data['name']} {data['arguments']}"


def _call_sentence(data: Data) -> str:
    failed = f"{data['error']}: " if data.get("error") else ""
    origin = ", kept from an equal call" if data.get("cached") else ""
    return f"{data['name']} in {data['seconds'] * 1000:.0f} ms{origin}: {failed}{data['content']}"


def _limit_sentence(data: Data) -> str:
    return str(data["detail"] or data["limit"])


def _pause_sentence(data: Data) -> str:
    waits = f"waits for {', '.join(item['name'] for item in data['waiting'])}" if data["waiting"] else "can be resumed"
    return f"{data['reason']}: it {waits}" if data.get("reason") else waits


def _unknown_sentence(data: Data) -> str:
    return f"{data['name']} {data['arguments']}: {data['reason']}; whether it took effect is not known"


def _settled_sentence(data: Data) -> str:
    effect = "took effect" if data["took_effect"] else "did not take effect"
    reason = f": {data['reason']}" if data["reason"] else ""
    return f"{data['name']} {effect}, says {data['by']}{reason}"


def _resume_sentence(data: Data) -> str:
    answered_names = data["answered"]
    return f"by {data['principal']}" + (f", with an answer for {_names(answered_names)}" if answered_names else "")


def _claims_sentence(data: Data) -> str:
    claims = "; ".join(f"{claim['action']}: {claim['text']}" for claim in data["claims"])
    return f"no successful call supports: {claims}"


def _end_sentence(data: Data) -> str:
    ending = f", {data['ending']}" if data.get("ending") else ""
    return f"{data['status']}{ending}: {data['text']}"


def _failure_sentence(data: Data) -> str:
    attempts = data.get("attempts", ())
    return f"{data['kind']}: {_attempts_text(attempts) if len(attempts) > 1 else data['error']}"


# For each kind of event, the function that describes such an event in one sentence.
_SENTENCES: Mapping[str, Callable[[Data], str]] = {
    "run_started": _start_sentence,
    "tools_selected": _selection_sentence,
    "tools_delivered": _delivery_sentence,
    "model_asked": _request_sentence,
    "model_answered": _answer_sentence,
    "meta_called": _meta_sentence,
    "call_decided": _decision_sentence,
    "approval_closed": _approval_sentence,
    "approval_applied": _applied_sentence,
    "call_intended": _intent_sentence,
    "call_finished": _call_sentence,
    "call_unknown": _unknown_sentence,
    "call_settled": _settled_sentence,
    "limit_reached": _limit_sentence,
    "run_paused": _pause_sentence,
    "run_resumed": _resume_sentence,
    "claims_unsupported": _claims_sentence,
    "run_finished": _end_sentence,
    "run_failed": _failure_sentence,
}


def sentence_of(event: EventRecord) -> str:
    """Returns an event as one sentence. Empty: the event is of a kind that this version does not know."""
    make = _SENTENCES.get(event.kind)
    return "" if make is None else make(event.data)


def _names(names: Sequence[str]) -> str:
    """Returns the first names, and the number of the others."""
    hidden_count = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {hidden_count} more" if hidden_count > 0 else "")


_OUTCOMES = {"answered": "answered", "not_called": "called no tool", "failed": "failed"}


def attempt_text(provider: str, model: str, how: str, outcome: str, detail: str) -> str:
    """Returns an attempt, one request on the way to an answer, as text: `openai:gpt-5-mini (required) called no tool`. `how`: the
    measure that was to make the model call a tool; `plain`: no measure."""
    step = "" if how == "plain" else f" ({how})"
    reason = f": {shortened(detail, _DETAIL_SHOWN)}" if detail and outcome == "failed" else ""
    return f"{provider}:{model}".rstrip(":") + f"{step} {_OUTCOMES.get(outcome, outcome)}{reason}"
