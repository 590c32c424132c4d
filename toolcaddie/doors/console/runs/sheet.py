"""Collects what the page of a run shows, from the events of the trail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from toolcaddie.core.capabilities import Prices
from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import cost
from toolcaddie.core.storage import EventRecord
from toolcaddie.core.usage import Usage
from toolcaddie.doors.console.runs.spans import spans_of
from toolcaddie.doors.event_sentences import attempt_text, sentence_of
from toolcaddie.doors.run_calls import CallSummary, calls_of, ending_in
from toolcaddie.doors.run_delivery import delivery_of_run
from toolcaddie.doors.run_tools import claims_in, effects_of, tool_of_run

TOOLS = 100
"""Number of selected tools on a page."""

_NANO = 1_000_000_000
_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError)
"""Errors that a row can raise whose form is not that of this version."""

_ANSWERS = ("approved", "refused", "expired")
"""The ends of a question."""

Data = Mapping[str, Any]
T = TypeVar("T")


def sheet_of(events: Sequence[EventRecord], *, prices_of: Callable[[str], Prices | None]) -> dict[str, Any]:
    """Returns the data of a run's page, but for its selection and its questions."""
    start = _first(events, "run_started")
    answers = [_answer(event.data, prices_of) for event in events if event.kind == "model_answered"]
    costs = [answer["dollars"] for answer in answers]
    return {
        "start": start,
        "spans": spans_of(events),
        "calls": _read(lambda: list(calls_of(events)), list[CallSummary]()),
        "decided_by": _read(lambda: _answers_of_people(events), dict[str, list[Data]]()),
        "answers": answers,
        "cost": sum(costs) if costs and None not in costs else None,
        "delivery": _delivery(events),
        "ending": ending_in(events),
        "end": _first(events, "run_finished") or _first(events, "run_failed"),
        "claims": _read(lambda: list(claims_in(events)), list[Data]()),
        "limits": [event.data for event in events if event.kind == "limit_reached"],
    }


def selection_of(events: Sequence[EventRecord], *, skip: int = 0) -> Data | None:
    """Returns the selection of a run with one page of its tools; None: it selected none. `skip`: the tools on earlier pages."""
    selection = _first(events, "tools_selected")
    if not selection:
        return None
    tools, counts = selection.get("tools", []), selection.get("counts", {})
    return {
        **selection,
        "tools": [_tool(tool) for tool in tools[skip : skip + TOOLS]],
        "dropped": [_tool(tool) for tool in selection.get("dropped", [])],
        "dropped_by_stage": selection.get("dropped_by_stage", {}),
        "counts": {"selected": counts.get("selected", len(tools)), "catalog": counts.get("catalog", 0)},
        "next": skip + TOOLS if skip + TOOLS < len(tools) else None,
    }


def _tool(tool: Data) -> Data:
    """Returns a selected or a dropped tool, with all fields that the page shows."""
    return {"name": "", "category": None, "score": 0.0, "reasons": [], "stage": "", "detail": "", **tool}


def verdict_of(name: str, events: Sequence[EventRecord]) -> Data | None:
    """Returns why one tool was in or out, as `toolcaddie why --run` does; None: the run selected no tools."""
    selection = _first(events, "tools_selected")
    return _read(lambda: _verdict(name, selection, events), None) if selection else None


def _verdict(name: str, selection: Data, events: Sequence[EventRecord]) -> Data | None:
    return {"tool": name, **tool_of_run(name, selection, events), "effects": effects_of(name, events)}


def event_rows(events: Sequence[EventRecord]) -> Sequence[Data]:
    """Returns events with a sentence each."""
    return [
        {"seq": event.seq, "at": event.at, "kind": event.kind, "sentence": _sentence(event), "data": event.data}
        for event in events
    ]


def _sentence(event: EventRecord) -> str:
    return _read(lambda: sentence_of(event), "")


def _answers_of_people(events: Sequence[EventRecord]) -> dict[str, list[Data]]:
    """Returns what people answered to the questions about calls, by the ids of the calls; of each question the last answer."""
    answers: dict[str, dict[str, Data]] = {}
    for event in events:
        if event.kind in ("approval_closed", "approval_applied") and event.data.get("status") in _ANSWERS:
            names = ("approval", "status", "by", "reason")
            answer = {name: str(event.data.get(name) or "") for name in names}
            answers.setdefault(str(event.data["id"]), {})[answer["approval"]] = answer
    return {call_id: list(each.values()) for call_id, each in answers.items()}


def _answer(data: Data, prices_of: Callable[[str], Prices | None]) -> dict[str, Any]:
    """Returns an answer of a model with its cost in US dollars; None: the price is unknown."""
    usage = data.get("usage") or {}
    model = str(data.get("model", ""))
    provider = str(data.get("provider") or "")
    prices = prices_of(f"{provider}:{model}" if provider else model) if model else None
    tokens = Usage(
        input_tokens=usage.get("input", 0),
        output_tokens=usage.get("output", 0),
        cached_tokens=usage.get("cached", 0),
        written_tokens=usage.get("written", 0),
    )
    return {
        "round": data.get("round"),
        "model": model,
        "provider": provider,
        "finish_reason": data.get("finish_reason", ""),
        "usage": usage,
        "seconds": data.get("seconds"),
        "dollars": None if prices is None else cost(tokens, prices) / _NANO,
        "attempts": [_attempt(attempt) for attempt in data.get("attempts", ())],
    }


def _attempt(data: Data) -> str:
    texts = [str(data.get(name, "")) for name in ("provider", "model", "how", "outcome", "detail")]
    return attempt_text(*texts)


def _delivery(events: Sequence[EventRecord]) -> Data | None:
    try:
        return delivery_of_run(events) if events else None
    except (RequestError, *_UNREADABLE):
        return None


def _first(events: Sequence[EventRecord], kind: str) -> Data:
    return next((event.data for event in events if event.kind == kind), {})


def _read(read: Callable[[], T], otherwise: T) -> T:
    """Returns what is read from rows; `otherwise` if a row has another form, so that it does not hide the rest of the page."""
    try:
        return read()
    except _UNREADABLE:
        return otherwise
