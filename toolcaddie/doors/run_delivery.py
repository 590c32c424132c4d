"""Finds in the events of a run how the tools were sent to the model, and what was weighed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.storage import EventRecord

Data = Mapping[str, Any]


def delivery_of_run(events: Sequence[EventRecord]) -> dict[str, Any]:
    """Returns the JSON of `why --run RUN_ID --delivery`, from the events of the run. Raises `RequestError` if no tools were
    sent."""
    run_id = events[0].run_id
    rows: dict[str, list[Any]] = {}
    for event in events:
        rows.setdefault(event.kind, []).append(event.data)
    if "tools_delivered" not in rows:
        raise RequestError(f"run {run_id} sent no tools; `toolcaddie trail {run_id}` shows what it did")
    first, *later = rows["tools_delivered"]
    start, selection = _first(rows, "run_started"), _first(rows, "tools_selected")
    request, answer = _first(rows, "model_asked"), _first(rows, "model_answered")
    return {
        "run_id": run_id,
        "message": start.get("message", ""),
        "provider": request.get("provider", ""),
        "model": request.get("model", ""),
        "preset": start.get("preset", ""),
        "counts": {
            **selection.get("counts", {}),
            "sent": request.get("tools", len(first["tools"]) + len(first["meta"])),
        },
        "tokens": first["tokens"],
        "strategy": first["strategy"],
        "note": first["note"],
        "later_by": first.get("later_by", "array"),
        "added": first.get("added", []),
        "options": first.get("options", []),
        "bill": first.get("bill"),
        "billed": _billed(answer),
        "later": [
            {
                "round": row["round"],
                "strategy": row["strategy"],
                "tools": len(row["tools"]) + len(row["meta"]),
                "note": row["note"],
            }
            for row in later
        ],
    }


def _first(rows: Mapping[str, Sequence[Data]], kind: str) -> Data:
    """Returns the data of the first event of this kind, or an empty mapping if there is none."""
    return rows.get(kind, ({},))[0]


def _billed(answer: Data) -> dict[str, int] | None:
    """Returns the input tokens that the provider counted for the first answer: read from its cache, written to it, and plain (at
    the full price). None: there is no answer, or it took several requests."""
    usage = answer.get("usage")
    if usage is None or answer.get("attempts"):
        return None
    read_tokens, written_tokens = usage["cached"], usage.get("written", 0)
    return {
        "read": read_tokens,
        "written": written_tokens,
        "plain": max(0, usage["input"] - read_tokens - written_tokens),
    }
