"""The sentences of the practice model. Each begins by saying who speaks: nobody shall take it for a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.samples.practice.rows import Row, decode, label, rows_of
from toolcaddie.samples.practice.toolbox import Slot
from toolcaddie.samples.practice.words import split_words

SIGNATURE = "This is the practice model, which follows plain rules and needs no key."

CALLED_OFF = "Good, I leave it at that."

_WHICH = "Which one do you mean?"
_WHAT = "What should I take?"

_SHOWN_ROWS = 3
_SHOWN_FIELDS = 6
_SHOWN_TEXT = 300


def signed(text: str) -> str:
    return f"{SIGNATURE} {text}"


def is_question(text: str) -> bool:
    """Whether a text is one of our own that asks for something."""
    return text.startswith(SIGNATURE) and text.endswith((_WHICH, _WHAT))


def greeting(tools: int) -> str:
    offer = f"I can use the {tools} tools I was given" if tools else "I was given no tools just now"
    return (
        f"Hello! {offer}: say in one sentence what to show or to do, with names, numbers and dates, "
        "and I pick a tool by the words you share with it."
    )


def nothing_fits(text: str) -> str:
    return f"None of the tools I can see fits {_short(text, 80)!r}, so I did nothing. Try the words a tool would use."


def which(slot: Slot, rows: Sequence[Row]) -> str:
    """Asks which of several rows was meant."""
    listed = ", ".join(_described(row) for row in rows[:8])
    return f"Several fit as the {_thing(slot)}: {listed}. {_WHICH}"


def what_is(tool: str, missing: Sequence[Slot]) -> str:
    """Asks for what a tool needs and the message does not say."""
    names = [_slot_name(slot) for slot in missing]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"For {tool} I still need: {listed}. {_WHAT}"


def not_found(slot: Slot, sought: str) -> str:
    return f"I looked for the {_thing(slot)} {sought!r} and did not find it, so I changed nothing. {_WHICH}"


def gave_up(reason: str) -> str:
    return f"I stop here: {reason}"


def failure(tool: str, content: str) -> str:
    value = decode(content)
    told = value.get("error") or value.get("message") or value if isinstance(value, Mapping) else value
    told = told.get("message", told) if isinstance(told, Mapping) else told
    return f"{tool} did not work: {_short(str(told), _SHOWN_TEXT)}"


def outcome(tool: str, content: str) -> str:
    """What a tool gave, in a sentence or two: how many rows and the first ones, or the first fields."""
    value = decode(content)
    if not isinstance(value, Mapping | list):
        return f"I called {tool}; it says: {_short(str(value), _SHOWN_TEXT)}"
    rows = rows_of(content)
    if isinstance(value, Mapping) and (len(rows) == 1 and not _has_list(value)):
        return f"I called {tool}. {_fields(rows[0])}."
    if not rows and isinstance(value, Mapping):
        return f"I called {tool}. {_fields(value) or 'It gave nothing'}."
    total = value.get("total") if isinstance(value, Mapping) else None
    count = total if isinstance(total, int) else len(rows)
    shown = "; ".join(_described(row) for row in rows[:_SHOWN_ROWS])
    more = " and more" if count > _SHOWN_ROWS else ""
    listed = f": {shown}{more}" if rows else ""
    others = {key: child for key, child in value.items() if key != "total"} if isinstance(value, Mapping) else {}
    figures = f" {_fields(others)}." if _fields(others) else ""
    return f"I called {tool}. It gave {count} {'row' if count == 1 else 'rows'}{listed}.{figures}"


def only_looked(text: str) -> str:
    """Before the outcome of a reading tool that was called although something was to be done."""
    return f"I have no tool that does this, so I only looked. {text}"


def _has_list(value: Mapping[str, Any]) -> bool:
    return any(isinstance(child, list) for child in value.values())


def _described(row: Row) -> str:
    name = label(row)
    more = [f"{key} {value}" for key, value in row.items() if _is_plain(value) and str(value) != name and value != ""]
    return f"{name} ({', '.join(more[:3])})" if more and ":" not in name else name


def _fields(row: Row) -> str:
    inner = [child for child in row.values() if isinstance(child, Mapping)]
    plain = [f"{key}: {value}" for part in (row, *inner) for key, value in part.items() if _is_plain(value)]
    return _short(", ".join(plain[:_SHOWN_FIELDS]), _SHOWN_TEXT)


def _is_plain(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list)


def _thing(slot: Slot) -> str:
    words = [word for word in split_words(slot.name) if word not in ("id", "ids", "uuid")]
    return " ".join(words) or "one"


def _slot_name(slot: Slot) -> str:
    choices = f" (one of {', '.join(str(choice) for choice in slot.choices[:8])})" if slot.choices else ""
    return f"{slot.name.replace('_', ' ')}{choices}"


def _short(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1].rstrip() + "…"
