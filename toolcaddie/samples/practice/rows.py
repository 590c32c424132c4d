"""How the practice model reads what a tool gave back: rows in JSON, the row that was meant, the identifier in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.samples.practice.toolbox import Slot
from toolcaddie.samples.practice.words import fold, split_words, stem, stems, words_of

Row = Mapping[str, Any]

_ERROR_KEYS = ("error", "errors", "detail")
_ERROR = re.compile(
    r"^\W*(error\b|failed\b|not allowed|not run\b|there is no tool|the arguments of \S+ are|[\w.-]+ failed:|a person did not)",
    re.IGNORECASE,
)
_WRONG_FIELD = re.compile(
    r"(?:^|[:;] )(?:arguments: [\"'](?P<absent>\w+)[\"'] is a required|(?P<field>\w+)(?:\.\w+)*: )"
)


def decode(content: str) -> Any:
    """The JSON value of a result, or its text where it is none."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return content


def is_error(content: str) -> bool:
    """Whether a result tells of a failure. The wire has no flag for it, so the words decide."""
    value = decode(content)
    if isinstance(value, Mapping):
        return any(value.get(key) for key in _ERROR_KEYS) or value.get("success") is False
    return isinstance(value, str) and bool(_ERROR.match(value))


def wrong_fields(content: str) -> tuple[str, ...]:
    """Arguments that an error about arguments names."""
    told = content.split(" wrong:", 1)[-1].split("They must fit this schema", 1)[0].strip()
    return tuple(dict.fromkeys(match["absent"] or match["field"] for match in _WRONG_FIELD.finditer(told)))


def rows_of(content: str) -> tuple[Row, ...]:
    """The rows of a result: its longest list of objects, however deep, or the one object it is."""
    value = decode(content)
    best = max(_lists(value, depth=3), key=len, default=())
    if best:
        return tuple(best)
    while isinstance(value, Mapping) and len(value) == 1 and isinstance(next(iter(value.values())), Mapping):
        value = next(iter(value.values()))
    return (value,) if isinstance(value, Mapping) else ()


def is_something(content: str) -> bool:
    """Whether a result holds anything: a row, a field with a value beside a count of nothing, or a text."""
    value = decode(content)
    if isinstance(value, Mapping):
        return any(child not in (None, 0, "", [], {}) for child in value.values())
    return bool(value)


def _lists(value: Any, depth: int) -> list[list[Row]]:
    if isinstance(value, list):
        rows = [item for item in value if isinstance(item, Mapping)]
        return [rows] if rows else []
    if isinstance(value, Mapping) and depth:
        return [found for child in value.values() for found in _lists(child, depth - 1)]
    return []


def naming(row: Row) -> list[str]:
    """The values a person would call the row by, the likeliest first; first and last name are joined.

    A row with a name of its own is called by that; the names of others in it ("trainer", "owner") are not its own.
    """
    parts = [str(row[key]) for key in ("first_name", "last_name", "firstName", "lastName") if row.get(key)]
    ranked = sorted(
        (_naming_rank(key, value), number, value)
        for number, (key, value) in enumerate(row.items())
        if isinstance(value, str) and _naming_rank(key, value) < _NO_NAME
    )
    own = [value for rank, _, value in ranked if rank < _OTHERS]
    return ([" ".join(parts)] if len(parts) > 1 else []) + (own or [value for _, _, value in ranked])


_OTHERS, _NO_NAME = 4, 9
_NAMES = ("name", "title", "label", "code")
_NOT_NAMING = words_of("id status state kind type day date time at on from until phone email method gender unit")


def _naming_rank(key: str, value: str) -> int:
    """`name` comes first, `client_name` and the like next, then any text that is no date, state or number."""
    words = split_words(key)
    if words and words[-1] in _NAMES:
        return _NAMES.index(words[-1]) + _OTHERS * (len(words) > 1)
    described = not words or not _NOT_NAMING.isdisjoint(words) or not any(letter.isalpha() for letter in value)
    return _NO_NAME if described or len(value) > 80 else 8


def label(row: Row) -> str:
    """What to call a row in a sentence."""
    return next(iter(naming(row)), "") or ", ".join(
        f"{key}: {value}" for key, value in list(row.items())[:3] if not isinstance(value, Mapping | list)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A row and how well a text means it; `exact` when the text has a whole naming value of it."""

    row: Row
    score: float
    exact: bool


def matches(rows: Sequence[Row], text: str) -> list[Match]:
    """The rows some text may mean, best first: by the share of a naming value's words that it has."""
    words = set(split_words(text)) | set(stems(text))
    found = []
    for row in rows:
        values = [*naming(row), *(str(row[key]) for key in row if key in ("email", "phone", "code"))]
        share = max((_share(value, words) for value in values), default=0.0)
        if share > 0:
            found.append(Match(row=row, score=share, exact=share >= 1.0))
    return sorted(found, key=lambda match: -match.score)


def _share(value: str, words: set[str]) -> float:
    parts = split_words(value)
    if not parts:
        return 0.0
    return sum(part in words or stem(part) in words for part in parts) / len(parts)


def identifier(row: Row, slot: Slot, *, about: Sequence[str]) -> Any:
    """The value of `row` that `slot` wants, or None. `about`: stems of the tool the row came from.

    The field of the same name; else, where the row itself is the thing wanted, its `id`.
    """
    wanted = fold(slot.name).replace("_", "")
    for key, value in row.items():
        if fold(key).replace("_", "") == wanted and value is not None:
            return typed_id(value, slot)
    is_the_thing = not slot.thing or slot.thing[-1] in about
    if is_the_thing:
        for key, value in row.items():
            if fold(key) in ("id", "_id", "uuid") and value is not None:
                return typed_id(value, slot)
    nested = next((row[key] for key in row if slot.thing and stems(key) == [slot.thing[-1]]), None)
    if isinstance(nested, Mapping):
        return identifier(nested, slot, about=slot.thing)
    return None


def typed_id(value: Any, slot: Slot) -> Any:
    """The identifier in the type the slot asks for, where it can be."""
    if slot.type == "string" and isinstance(value, int):
        return str(value)
    if slot.type == "integer" and isinstance(value, str) and value.isdigit():
        return int(value)
    return value
