"""Finds in the events of a run why a tool was selected or left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.storage import EventRecord

NOT_LISTED = "not listed"
"""The stage of a tool that the trail of a run does not mention. Other stages name the step of the selection that decided about
the tool."""

CALLED = "called"
"""The stage of a tool that was called without having been sent."""
NO_SELECTION: Mapping[str, Any] = {"tools": (), "dropped": (), "dropped_by_stage": {}}
"""Stands for the selection of a run without a model."""


def claims_in(events: Sequence[EventRecord]) -> Sequence[Mapping[str, Any]]:
    """Returns what the answer says was done although no successful call supports it."""
    return [claim for event in events if event.kind == "claims_unsupported" for claim in event.data["claims"]]


def tool_of_run(name: str, selection: Mapping[str, Any], events: Sequence[EventRecord]) -> dict[str, Any]:
    """Returns the outcome of a tool in a recorded run, as JSON. `stage` is 'selected', 'added' (on request of the model),
    'called' (through `execute_tool`), 'not listed', or the stage of the selection that dropped the tool."""
    for entry in selection["tools"]:
        if entry["name"] == name:
            return {"chosen": True, "stage": "selected", "score": entry["score"], "reasons": entry["reasons"]}
    for event in events:
        if event.kind == "meta_called" and name in event.data["added"]:
            reason = f"{event.data['name']} {event.data['arguments']}"
            return {"chosen": True, "stage": "added", "score": None, "reasons": [reason]}
    for entry in selection["dropped"]:
        if entry["name"] == name:
            return {"chosen": False, "stage": entry["stage"], "score": entry["score"], "reasons": [entry["detail"]]}
    if name in called_names(events):
        reason = "no definition of it was sent; the model ran it by its name"
        if selection is NO_SELECTION:
            reason = "it was called directly; nothing was selected or sent"
        return {"chosen": False, "stage": CALLED, "score": None, "reasons": [reason]}
    reason = (
        f"the trail records only the best of the tools that were left out ({omission_counts(selection)}), and this tool is not "
        "among them; most likely it matched nothing"
    )
    return {"chosen": False, "stage": NOT_LISTED, "score": None, "reasons": [reason]}


def effects_of(tool: str, events: Sequence[EventRecord]) -> Sequence[str]:
    """Returns the effects of the calls of a tool, each once."""
    decided = (event.data for event in events if event.kind == "call_decided" and event.data["name"] == tool)
    return list(dict.fromkeys(effect for data in decided for effect in data.get("effects", ())))


def called_names(events: Sequence[EventRecord]) -> set[str]:
    """Returns the names of the tools that were called."""
    return {event.data["name"] for event in events if event.kind == "call_decided"}


def omission_counts(selection: Mapping[str, Any]) -> str:
    """Returns the number of tools that each stage dropped: `93 no_match, 12 floor`."""
    return ", ".join(f"{count} {stage}" for stage, count in selection["dropped_by_stage"].items()) or "none"
