"""How the practice model reads what a tool gave back: rows in JSON, the row that was meant, the identifier in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.providers.practice_toolbox import Slot
from toolcaddie.providers.practice_words import fold, split_words, stem, stems, words_of

Row = Mapping[str, Any]

_NAMING = words_of("name title label code email phone number first last full display subject topic type")
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


def _lists(value: Any, depth: int) -> list[list[Row]]:
    if isinstance(value, list):
        rows = [item for item in value if isinstance(item, Mapping)]
        return [rows] if rows else []
    if isinstance(value, Mapping) and depth:
        return [found for child in value.values() for found in _lists(child, depth - 1)]
    return []


def naming(row: Row) -> list[str]:
    """The values a person would call the row by, the likeliest first; first and last name are joined."""
    values = [
        (_naming_rank(key), str(value))
        for key, value in row.items()
        if isinstance(value, str | int) and not isinstance(value, bool) and _naming_rank(key) < 9
    ]
    parts = [str(row[key]) for key in ("first_name", "last_name", "firstName", "lastName") if row.get(key)]
    joined = [" ".join(parts)] if len(parts) > 1 else []
    return joined + [value for _, value in sorted(values, key=lambda pair: pair[0])]


def _naming_rank(key: str) -> int:
    words = split_words(key)
    if not words or not _NAMING.intersection(words):
        return 9
    return ("name", "title", "label").index(words[-1]) + len(words) if words[-1] in ("name", "title", "label") else 7


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
    """The rows some text may mean, best first: by the share of a naming value's words it has, then by other values."""
    words = set(split_words(text)) | set(stems(text))
    found = []
    for row in rows:
        share = max((_share(value, words) for value in naming(row)), default=0.0)
        if share > 0:
            extra = sum(_share(str(value), words) for value in row.values() if isinstance(value, str | int))
            found.append(Match(row=row, score=share + 0.1 * extra, exact=share >= 1.0))
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
