"""Reads results of tools for the practice model, which follows rules instead of a language model: the rows (objects) in their
JSON, the row that a text refers to, and the identifier in a row."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.samples.practice.english import listed, stem, stems, words
from toolcaddie.samples.practice.tools import Slot

Row = Mapping[str, Any]

_ERROR = re.compile(
    r"^\W*(error\b|failed\b|not allowed|not run\b|there is no tool|the arguments of \S+ are|[\w.-]+ failed:|a person did not)",
    re.IGNORECASE,
)
_WRONG_FIELD = re.compile(
    r"(?:^|[:;] )(?:arguments: [\"'](?P<absent>\w+)[\"'] is a required|(?P<field>\w+)(?:\.\w+)*: )"
)


def decoded(content: str) -> Any:
    """Returns the JSON value of a result, or its text if it is not JSON."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return content


def is_error(content: str) -> bool:
    """Returns True if a result reports a failure. Results in a model request have no flag for it, so the
    words decide."""
    value = decoded(content)
    if isinstance(value, Mapping):
        return any(value.get(key) for key in ("error", "errors", "detail")) or value.get("success") is False
    return isinstance(value, str) and bool(_ERROR.match(value))


def wrong_fields(content: str) -> frozenset[str]:
    """Returns the arguments that an error mentions."""
    text = content.split(" wrong:", 1)[-1].split("They must fit this schema", 1)[0].strip()
    return frozenset(match["absent"] or match["field"] for match in _WRONG_FIELD.finditer(text))


def rows_of(content: str) -> Sequence[Row]:
    """Returns the rows of a result: its longest list of objects, up to three levels deep, or the result itself as the only
    row."""
    value = decoded(content)
    rows = max(_lists(value, depth=3), key=len, default=[])
    while (
        not rows and isinstance(value, Mapping) and len(value) == 1 and isinstance(next(iter(value.values())), Mapping)
    ):
        value = next(iter(value.values()))
    return rows or ([value] if isinstance(value, Mapping) else [])


def _lists(value: Any, depth: int) -> list[list[Row]]:
    """Returns the objects of each list in a JSON value, down to `depth` levels of objects."""
    if isinstance(value, list):
        return [[item for item in value if isinstance(item, Mapping)]]
    if isinstance(value, Mapping) and depth:
        return [rows for child in value.values() for rows in _lists(child, depth - 1)]
    return []


_NAMES = ("name", "title", "label", "code")
_NOT_NAMING = listed("not_naming")


def names_of(row: Row) -> list[str]:
    """Returns the values that a person would use as the row's name, the likeliest first; first and last name are joined.

    If the row has a field such as `name`, names of other things in the row (`trainer_name`, "owner") do not count.
    """
    parts = [str(row[key]) for key in ("first_name", "last_name", "firstName", "lastName") if row.get(key)]
    texts = [(words(key), value) for key, value in row.items() if isinstance(value, str) and 0 < len(value) <= 80]
    own = [value for name in _NAMES for key, value in texts if key == [name]]
    others = [value for name in _NAMES for key, value in texts if len(key) > 1 and key[-1] == name]
    other_texts = [value for key, value in texts if _NOT_NAMING.isdisjoint(key) and any(map(str.isalpha, value))]
    return ([" ".join(parts)] if len(parts) > 1 else []) + (own or list(dict.fromkeys([*others, *other_texts])))


def label_of(row: Row) -> str:
    """Returns the row's name for a sentence."""
    plain = (f"{key}: {value}" for key, value in list(row.items())[:3] if not isinstance(value, Mapping | list))
    return next(iter(names_of(row)), "") or ", ".join(plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A row, and the share of the words of its name that a text contains; 1: all of them."""

    row: Row
    share: float


def matches(rows: Sequence[Row], text: str) -> list[Match]:
    """Returns the rows that a text may refer to, the best first."""
    mentioned = {*words(text), *stems(text)}
    keyed = [[*names_of(row), *(str(row[key]) for key in ("email", "phone", "code") if key in row)] for row in rows]
    shares = [max((share(value, mentioned) for value in values), default=0.0) for values in keyed]
    hits = [Match(row=row, share=value) for row, value in zip(rows, shares, strict=True) if value]
    return sorted(hits, key=lambda match: -match.share)


def share(value: str, mentioned: Container[str]) -> float:
    """Returns the share of a value's words that a text contains."""
    parts = words(value)
    return sum(part in mentioned or stem(part) in mentioned for part in parts) / len(parts) if parts else 0.0


def identifier(row: Row, slot: Slot, *, about: Container[str]) -> Any:
    """Returns the value of a row for the slot of an identifier, or None. It is the field with the name of the slot. If there is
    none and the row is about the slot's thing, it is the row's `id`. `about`: stems of the name of the tool that returned the
    row."""
    flat = {"".join(words(key)): value for key, value in row.items() if value is not None}
    is_the_thing = not slot.thing or stem(slot.thing) in about
    keys = ["".join(slot.parts), *(["id", "uuid"] if is_the_thing else [])]
    value = next((flat[key] for key in keys if key in flat), None)
    if value is None:
        nested = next(
            (child for key, child in row.items() if stems(key) == stems(slot.thing) and isinstance(child, Mapping)),
            None,
        )
        return identifier(nested, slot, about=stems(slot.thing)) if nested else None
    if slot.type == "string" and isinstance(value, int):
        return str(value)
    return int(value) if slot.type == "integer" and isinstance(value, str) and value.isdigit() else value
