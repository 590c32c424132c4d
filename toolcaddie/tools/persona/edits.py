"""The change of a file that a call asks for: of SOUL.md, IDENTITY.md or GOALS.md.

It is a function of the file's text, so that it is the same in the preview that a person sees and in the call, and can be repeated
on a file that others have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import GOALS, IDENTITY, SOUL
from toolcaddie.tools.persona.facts import one_line
from toolcaddie.tools.persona.goals import open_goal, with_changes, with_goal
from toolcaddie.tools.persona.identity import with_fields

Edit = Callable[[str], str]
"""Takes the text of a file and returns the new one. Raises `RequestError` if the change cannot be made."""

_FIELDS = ("status", "priority", "notes", "outcome")
_DEFAULTS: dict[str, str] = {"status": "pending", "priority": "medium"}


def edit_of(name: str, arguments: Mapping[str, Any], *, today: str) -> tuple[str, Edit]:
    """Returns the file that a call changes, and the change."""
    if name == "update_soul":
        return SOUL, lambda old: _soul(arguments["content"])
    if name == "update_identity":
        return IDENTITY, lambda old: _identity(old, arguments)
    return GOALS, lambda old: _goals(old, arguments, today)


def changed_text(path: str, before: str, edit: Edit) -> str:
    """Returns the new text of a file. Raises `RequestError` if nothing changes."""
    after = edit(before)
    if after == before:
        raise RequestError(f"nothing would change in {path}")
    return after


def _soul(content: str) -> str:
    if not content.strip():
        raise RequestError("content is empty; write the whole of SOUL.md", param="content")
    return content


def _identity(old: str, arguments: Mapping[str, Any]) -> str:
    given = _given(arguments, ("name", "emoji", "vibe"))
    if not given:
        raise RequestError("give at least one of name, emoji and vibe")
    return with_fields(old, given)


def _goals(old: str, arguments: Mapping[str, Any], today: str) -> str:
    """Returns GOALS.md with a goal added, updated or completed."""
    action, goal = arguments["action"], one_line(arguments.get("goal") or "")
    if not goal:
        raise RequestError(f"action {action} needs `goal`, the text of the goal or a part of it", param="goal")
    given = _given(arguments, _FIELDS)
    if action == "add":
        return with_goal(old, goal, _DEFAULTS | given)
    if action == "update" and not given:
        raise RequestError("give status, priority, notes or outcome to change")
    if action == "update":
        return with_changes(old, open_goal(old, goal), given)
    fitting = open_goal(old, goal)
    fields = {"status": "completed"} if "status" in fitting.fields else {}
    fields |= {"completed": today, **_given(arguments, ("outcome", "notes"))}
    return with_changes(old, fitting, fields, done=True)


def _given(arguments: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    """Returns those of the arguments that are given, each on one line."""
    values = {name: one_line(arguments.get(name) or "") for name in names}
    return {name: value for name, value in values.items() if value}
