"""The change of a file that a call asks for: of SOUL.md, IDENTITY.md or GOALS.md.

It is a function of the file's text, so that it is the same in the preview that a person sees and in the call, and can be repeated
on a file that others have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import GOALS, IDENTITY, SOUL
from toolcaddie.tools.persona.facts import one_line
from toolcaddie.tools.persona.goals import open_goal, with_changes, with_goal
from toolcaddie.tools.persona.identity import with_fields
from toolcaddie.tools.persona.secrets import storable

FILE_OF: Mapping[str, str] = {"update_soul": SOUL, "update_identity": IDENTITY, "manage_goals": GOALS}
"""The file that each tool changes."""

_STATES = ("status", "priority")
_TEXTS = ("notes", "outcome")
_DEFAULTS: dict[str, str] = {"status": "pending", "priority": "medium"}


class Edited(Struct, frozen=True, kw_only=True):
    """A file after a change."""

    text: str
    is_redacted: bool
    """True if secrets of the call are not in it."""


def edited(name: str, arguments: Mapping[str, Any], before: str, *, today: str) -> Edited:
    """Returns the file of a tool after a call. Raises `RequestError` if the change cannot be made, or if nothing changes."""
    safe = {**arguments, **_without_secrets(name, arguments, before)}
    match name:
        case "update_soul":
            after = _soul(safe["content"])
        case "update_identity":
            after = _identity(before, safe)
        case _:
            after = _goals(before, safe, today)
    if after == before:
        raise RequestError(f"nothing would change in {FILE_OF[name]}")
    return Edited(text=after, is_redacted=safe != dict(arguments))


def _without_secrets(name: str, arguments: Mapping[str, Any], before: str) -> Mapping[str, str]:
    """Returns the texts of a call that are stored. A goal that is only looked for is none of them."""
    texts = {"update_soul": ("content",), "update_identity": ("name", "emoji", "vibe")}.get(name, _TEXTS)
    if arguments.get("action") == "add":
        texts = ("goal", *texts)
    return {text: storable(arguments[text], param=text, before=before) for text in texts if arguments.get(text)}


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
    given = _given(arguments, (*_STATES, *_TEXTS))
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
