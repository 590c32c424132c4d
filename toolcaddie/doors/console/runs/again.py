"""Selects again for the message of a recorded run, with the present catalog and another preset. No model is asked, and no tool is
called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunRequest
from toolcaddie.core.storage import EventRecord, RunSummary
from toolcaddie.evaluation.recorded import RecordedRun, recorded
from toolcaddie.runtime import Runtime

MOST = 200
"""Largest number of tools in a comparison."""


def chosen_again(runtime: Runtime, run: RunSummary, events: Sequence[EventRecord], preset: str) -> Mapping[str, Any]:
    """Returns the comparison of the recorded selection with one that is made now. Raises `RequestError`."""
    if preset not in PRESETS:
        raise RequestError(f"there is no preset {preset[:80]!r}; choose one of {', '.join(PRESETS)}", param="preset")
    before = _recorded(run, events)
    request = RunRequest(
        messages=before.messages,
        principal=Principal(id=before.principal, tenant=before.tenant, role=before.role, bot=before.bot),
        preset=preset,
        conversation="preview",  # without a name, it would be planned as a single request
    )
    selection, delivery = runtime.preview(request)
    scores = {tool["name"]: tool for event in events if event.kind == "tools_selected" for tool in event.data["tools"]}
    dropped = {tool.name: tool for tool in selection.dropped}
    now = {tool.tool.name: tool for tool in selection.tools}
    rows = [
        {
            "name": name,
            "before": name in scores,
            "now": name in now,
            "score_before": scores[name]["score"] if name in scores else None,
            "score": now[name].score if name in now else dropped[name].score if name in dropped else None,
            "reasons": list(now[name].reasons)
            if name in now
            else [f"{dropped[name].stage}; {dropped[name].detail}"]
            if name in dropped
            else [],
        }
        for name in dict.fromkeys((*now, *scores))
    ]
    rows.sort(key=lambda row: (row["before"] == row["now"], not row["now"]))
    return {
        "preset": preset,
        "tools": rows[:MOST],
        "number": len(rows),
        "joined": [name for name in now if name not in scores],
        "left": [name for name in scores if name not in now],
        "called_and_out": sorted({call.name for call in before.called} - now.keys()),
        "is_cut": before.cut,
        "strategy": delivery.strategy,
        "tokens": {"all": delivery.tokens_all, "sent": delivery.tokens},
        "note": delivery.note,
        "options": [msgspec.to_builtins(option) for option in delivery.options],
    }


def _recorded(run: RunSummary, events: Sequence[EventRecord]) -> RecordedRun:
    """Returns a run from its events. Raises `RequestError` if it selected no tools."""
    try:
        found = recorded(run, events)
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        raise RequestError(f"the events of this run cannot be read: {error}", code="wrong_events") from error
    if found is None:
        raise RequestError("this run selected no tools, so there is nothing to compare", code="no_selection")
    return found
