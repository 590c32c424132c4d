"""API keys as people read them and limit them: the same on the command line and in the console."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.key_limits import BILLION, LIMIT_NAMES, KeyLimits, KeyUsage
from toolcaddie.core.storage import ApiKey

NO_LIMIT, DEFAULT = "none", "default"

LimitWord = Literal["none", "default"]


def limit_in(text: str, name: str) -> float | LimitWord:
    """Returns the limit that a person has written: a number, `none` (no limit, whatever the settings say) or `default` (the limit
    of the settings). `name`: the limit. Raises `RequestError`."""
    if text == NO_LIMIT:
        return "none"
    if text == DEFAULT:
        return "default"
    try:
        number: float = float(text) if "dollars" in name else int(text)
    except ValueError as error:
        raise RequestError(f"{text[:80]!r} is no number; write a number, none or default", param=name) from error
    if not 0 < number < float("inf"):
        raise RequestError(f"{text[:80]!r} must be more than 0; write none for no limit", param=name)
    return number


def changed_limits(before: Mapping[str, float | None], options: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Returns the limits of a key with those of the options. An option that was not given changes nothing."""
    limits = dict(before)
    for name in LIMIT_NAMES:
        match options[name]:
            case None:
                pass
            case "default":
                limits.pop(name, None)
            case "none":
                limits[name] = None
            case number:
                limits[name] = number
    return limits


def limits_text(limits: KeyLimits) -> str:
    """Returns limits in words: `60 requests per minute, 5 dollars per day`."""
    values = [(name, getattr(limits, name)) for name in LIMIT_NAMES]
    return ", ".join(f"{value:,.15g} {name.replace('_', ' ')}" for name, value in values if value is not None)


def limits_json(key: ApiKey, defaults: KeyLimits) -> Mapping[str, Any]:
    """Returns a key's own limits, and those that hold for it. `defaults`: the limits of the settings."""
    return {"own": key.limits, "in_force": msgspec.to_builtins(defaults.with_own(key.limits))}


def key_json(key: ApiKey, defaults: KeyLimits) -> dict[str, Any]:
    """Returns a key as JSON. Its secret is not known any more. `defaults`: the limits of the settings."""
    return {
        "id": key.id,
        "name": key.name,
        "hint": key.hint,
        "principal": key.principal,
        "created": key.created,
        "last_used": key.last_used,
        "revoked": key.revoked,
        "limits": limits_json(key, defaults),
    }


def last_days(days: int) -> tuple[str, str]:
    """Returns the first and the last day (UTC) of a number of days, with today."""
    today = datetime.now(UTC).date()
    return (today - timedelta(days=days - 1)).isoformat(), today.isoformat()


def dollars_text(usage: KeyUsage) -> str:
    """Returns what a use has cost; `unknown` for a model without a known price."""
    if usage.unpriced and not usage.money:
        return "unknown"
    return f"{usage.money / BILLION:,.4f}"
