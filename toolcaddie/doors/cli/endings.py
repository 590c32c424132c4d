"""The remark about a run that a tool ended with a question or a refusal, the same after every command that shows an answer."""

from __future__ import annotations

from collections.abc import Iterable

from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.cli.output import note

_REMARKS = {
    "question": "the answer is a question to you: the task goes on when you answer it",
    "refusal": "the answer is a refusal: the model says that it cannot do this",
}


def note_ending(ending: str) -> None:
    """Prints a remark if a tool ended the run with a question or a refusal."""
    if ending in _REMARKS:
        note(_REMARKS[ending])


def ending_in(events: Iterable[EventRecord]) -> str:
    """Returns the kind of text with which a tool ended a recorded run; empty: no tool ended it."""
    return next((str(event.data.get("ending", "")) for event in events if event.kind == "run_finished"), "")
