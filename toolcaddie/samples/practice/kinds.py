"""What kind of value an argument takes, by its name, format and description, and how a mention is written as one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from toolcaddie.core.schema import argument_errors
from toolcaddie.samples.practice.mentions import Kind, Mention, number
from toolcaddie.samples.practice.toolbox import Slot
from toolcaddie.samples.practice.words import stems, stems_of

NOTHING = object()
"""No value was found; None would be one."""

TEXT_WORDS = stems_of("text note content message body comment description remark reason details summary feedback memo")
PAGING_WORDS = stems_of("limit top size offset page skip cursor per")
FROM_WORDS = stems_of("from start since after begin min source old base")
TO_WORDS = stems_of("to end until till before expiry max target new into")

_EMAIL = stems_of("email mail")
_PHONE = stems_of("phone mobile telephone tel whatsapp")
_LINK = stems_of("url uri link website homepage")
_DATE = stems_of("date day on when due since until deadline birthday")
_TIME = stems_of("time hour clock at")
_CODE = stems_of("code coupon voucher sku")
_MONEY = stems_of("amount price cost fee total budget rate charge pay wage bonus sum")
_PERCENT = stems_of("percent percentage discount")
_DAYS_IN = {stem: days for unit, days in (
    ("minutes", 1 / 1440), ("hours", 1 / 24), ("days", 1), ("weeks", 7), ("months", 30), ("years", 365),
) for stem in stems_of(unit)}  # fmt: skip


def kinds_of(slot: Slot) -> tuple[Kind, ...]:
    """Kinds of mention that a slot takes, the likeliest first; empty: its name does not tell."""
    words = frozenset(slot.words)
    return _number_kinds(words) if slot.type in ("integer", "number") else _text_kinds(words, slot)


def _text_kinds(words: frozenset[str], slot: Slot) -> tuple[Kind, ...]:
    if words & _EMAIL or slot.format == "email":
        return ("email",)
    if words & _PHONE:
        return ("phone",)
    if words & _LINK or slot.format == "uri":
        return ("url",)
    if slot.format == "time" or "HH:MM" in slot.description or (words & _TIME and not words & _DATE):
        return ("time",)
    if slot.format in ("date", "date-time") or words & _DATE or "YYYY-MM" in slot.description:
        return ("date", "period")
    return ("code", "quote") if words & _CODE else ()


def _number_kinds(words: frozenset[str]) -> tuple[Kind, ...]:
    if words & PAGING_WORDS:
        return ()
    if words & _PERCENT:
        return ("percent",)
    if words & set(_DAYS_IN) or "duration" in words:
        return ("duration", "period")
    return ("money",) if words & _MONEY else ()


def takes(slot: Slot, mention: Mention) -> bool:
    """Whether a mention that stands behind the slot's own name can be its value."""
    if slot.is_id:
        return mention.kind in ("number", "code") or (slot.type == "string" and mention.kind == "phone")
    if slot.type in ("integer", "number"):
        return mention.kind in ("number", "money", "percent", "duration")
    kinds = kinds_of(slot)
    return mention.kind in kinds if kinds else mention.kind in ("quote", "name", "code", "number", "phone")


def takes_currency(slot: Slot) -> bool:
    told = frozenset(slot.words) | frozenset(stems(slot.description))
    return slot.type == "string" and "currency" in told and TEXT_WORDS.isdisjoint(slot.words)


def shaped(mention: Mention, slot: Slot) -> Any:
    """The mention's value as the slot counts or writes it: two weeks as 14 where it wants days."""
    counts = slot.type in ("integer", "number")
    if mention.kind == "period" and counts:
        first, last = (date.fromisoformat(day) for day in mention.value)
        return round((last - first).days / _unit_days(slot, "day"))
    if mention.kind == "duration" and counts:
        return round(mention.value * _unit_days(None, mention.unit) / _unit_days(slot, mention.unit))
    if slot.type == "string" and mention.kind in ("number", "money", "phone"):
        return mention.text
    return mention.value


def _unit_days(slot: Slot | None, otherwise: str) -> float:
    """Days in the unit that a slot's name has."""
    unit = next((word for word in slot.words if word in _DAYS_IN), None) if slot else None
    return _DAYS_IN[unit or next(iter(stems_of(otherwise)))]


def written_day(value: str, words: str, slot: Slot) -> str:
    """A date as the slot writes it, or the user's own `words` where it takes them: its owner knows best which day that is."""
    word = words.lower()
    accepted = f"{slot.description} {slot.schema.get('pattern', '')}".lower()
    if word.isalpha() and re.search(rf"\b{word}\b", accepted):
        return word
    if "YYYY-MM" in slot.description and "DD" not in slot.description:
        return value[:7]
    return f"{value}T00:00:00" if slot.format == "date-time" else value


def fitted(value: Any, slot: Slot) -> Any:
    """The value in the slot's type and within its limits, or NOTHING where it cannot be."""
    if value is NOTHING:
        return NOTHING
    if slot.choices:
        return value if value in slot.choices else NOTHING
    typed = _typed(value, slot)
    return typed if typed is NOTHING or _allowed(typed, slot) else NOTHING


def _typed(value: Any, slot: Slot) -> Any:
    match slot.type:
        case "integer":
            return _whole(value)
        case "number":
            return _numeric(value)
        case "string":
            return _text(value, slot)
        case "boolean":
            return value if isinstance(value, bool) else NOTHING
        case "array":
            return value if isinstance(value, list) else [value]
        case "object":
            return value if isinstance(value, Mapping) else NOTHING
    return value


def _whole(value: Any) -> Any:
    value = _numeric(value)
    return int(value) if value is not NOTHING and float(value).is_integer() else NOTHING


def _numeric(value: Any) -> Any:
    if isinstance(value, bool):
        return NOTHING
    if isinstance(value, int | float):
        return value
    text = str(value).strip().lstrip("#")
    return number(text) if re.fullmatch(r"-?[\d,]*\.?\d+", text) else NOTHING


def _text(value: Any, slot: Slot) -> Any:
    most = slot.schema.get("maxLength")
    return str(value).strip()[: most if isinstance(most, int) else None] or NOTHING


_CHECKED = ("pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def _allowed(value: Any, slot: Slot) -> bool:
    """Whether the simple limits of the schema let a value pass; limits that make no sense let all pass."""
    limits = {key: slot.schema[key] for key in _CHECKED if key in slot.schema}
    try:
        return not argument_errors({"properties": {"value": limits}}, {"value": value})
    except ValueError:
        return True
