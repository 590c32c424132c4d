"""The remark about a run that a tool ended with a question or a refusal, the same after every command that shows an answer."""

from __future__ import annotations

from toolcaddie.doors.cli.output import note

_REMARKS = {
    "question": "the answer is a question to you: the task goes on when you answer it",
    "refusal": "the answer is a refusal: the model says that it cannot do this",
}


def note_ending(ending: str) -> None:
    """Prints a remark if a tool ended the run with a question or a refusal."""
    if ending in _REMARKS:
        note(_REMARKS[ending])
