"""Three hundred tools, and for each of them a request that needs it: a provider takes 128, so most must be left out each time."""

from __future__ import annotations

SUBJECTS = ("invoice", "parcel", "meeting", "ticket", "recipe", "flight", "playlist", "contract", "camera", "garden")
VERBS = ("create", "delete", "list", "update", "archive", "export", "share", "print", "tag", "merge")
PLACES = ("home", "office", "cloud")
NAMES = tuple(f"{verb}_{subject}_{place}" for place in PLACES for subject in SUBJECTS for verb in VERBS)
HUNDRED = NAMES[::3]
"""The tools of a hundred different requests."""


def request_for(name: str) -> str:
    """Returns what a person writes who needs this tool."""
    verb, subject, place = name.split("_")
    return f"please {verb} the {subject} at {place}"


def needed_tool(request: str) -> str:
    """Returns the tool that such a request needs."""
    words = request.split()
    return "_".join((words[1], words[3], words[5]))
