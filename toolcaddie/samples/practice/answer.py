"""The sentences of the practice model, a provider that follows rules instead of a language model. `signed` puts a signature in
front of each, so that no one takes it for a language model.

A slot is one argument of a tool. A row is an object of a tool's JSON result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.samples.practice.rows import Row, decoded, label_of, rows_of
from toolcaddie.samples.practice.tools import Slot

SIGNATURE = "This is the practice model, which follows plain rules and needs no key."
CALLED_OFF = "Good, I leave it at that."

_WHICH_QUESTION = "Which one do you mean?"
_WHAT_QUESTION = "What should I take?"
_SHOWN_ROWS, _SHOWN_FIELDS, _SHOWN_TEXT = 3, 6, 300


def signed(text: str) -> str:
    return f"{SIGNATURE} {text}"


def is_question(text: str) -> bool:
    """Returns True if a text is a question of the practice model."""
    return text.startswith(SIGNATURE) and text.endswith((_WHICH_QUESTION, _WHAT_QUESTION))


def greeting(tools: int) -> str:
    offer = f"I can use the {tools} tools I was given" if tools else "I was given no tools just now"
    return (
        f"Hello! {offer}: say in one sentence what to show or to do, with names, numbers and dates, "
        "and I pick a tool by the words you share with it."
    )


def nothing_fits(text: str) -> str:
    return f"None of the tools I can see fits {_short(text, 80)!r}, so I did nothing. Try the words a tool would use, in English."


def which_question(slot: Slot, rows: Sequence[Row]) -> str:
    """Returns the question which of several rows the user means, if each may be the thing that the slot identifies."""
    return f"Several fit as the {slot.thing or 'one'}: {', '.join(map(_described, rows[:8]))}. {_WHICH_QUESTION}"


def missing_question(tool: str, missing: Sequence[Slot]) -> str:
    """Returns the question for required arguments that the message does not contain."""
    *names, last = [_slot_name(slot) for slot in missing]
    others = f"{', '.join(names)} and " if names else ""
    return f"For {tool} I still need: {others}{last}. {_WHAT_QUESTION}"


def not_found_question(slot: Slot, name: str) -> str:
    return (
        f"I looked for the {slot.thing or 'one'} {name!r} and did not find it, so I changed nothing. {_WHICH_QUESTION}"
    )


def gave_up(calls: int) -> str:
    return f"I stop here: {calls} calls did not get me there."


def only_looked(text: str) -> str:
    """Returns the outcome of a reading tool that was called although the user wanted a change."""
    return f"I have no tool that does this, so I only looked. {text}"


def failure(tool: str, content: str) -> str:
    """Returns the report of a failed call, with the error message in the tool's result."""
    value = decoded(content)
    for key in ("error", "message"):
        value = value.get(key) or value if isinstance(value, Mapping) else value
    return f"{tool} did not work: {_short(str(value), _SHOWN_TEXT)}"


def outcome(tool: str, content: str) -> str:
    """Returns a summary of a result: the number of rows and the first of them, or the first fields."""
    value = decoded(content)
    if not isinstance(value, Mapping | list):
        return f"I called {tool}; it says: {_short(str(value), _SHOWN_TEXT)}"
    rows, fields = rows_of(content), value if isinstance(value, Mapping) else {}
    if fields and not any(isinstance(child, list) for child in fields.values()):
        return f"I called {tool}. {_fields(rows[0])}."
    count = total if isinstance(total := fields.get("total"), int) else len(rows)
    listing = (
        f": {'; '.join(map(_described, rows[:_SHOWN_ROWS]))}{' and more' if count > _SHOWN_ROWS else ''}"
        if rows
        else ""
    )
    figures = _fields({key: child for key, child in fields.items() if key != "total"})
    return f"I called {tool}. It gave {count} {'row' if count == 1 else 'rows'}{listing}.{f' {figures}.' if figures else ''}"


def _described(row: Row) -> str:
    """Returns the name of a row with up to three of its fields. If the row has no name, its first fields stand alone."""
    name = label_of(row)
    more = [f"{key} {value}" for key, value in row.items() if _is_plain(value) and str(value) not in (name, "")]
    return f"{name} ({', '.join(more[:3])})" if more and ":" not in name else name


def _fields(row: Row) -> str:
    """Returns the first fields of a row, and of the objects in it, as `key: value` pairs."""
    inner = [child for child in row.values() if isinstance(child, Mapping)]
    plain = [f"{key}: {value}" for part in (row, *inner) for key, value in part.items() if _is_plain(value)]
    return _short(", ".join(plain[:_SHOWN_FIELDS]), _SHOWN_TEXT)


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list)


def _slot_name(slot: Slot) -> str:
    choices = f" (one of {', '.join(map(str, slot.choices[:8]))})" if slot.choices else ""
    return f"{slot.name.replace('_', ' ')}{choices}"


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
