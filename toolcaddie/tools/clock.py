"""The source `datetime`: the tool `get_datetime`.

[[source]]
type = "datetime"
timezone = "America/Argentina/Buenos_Aires"   # default: the zone of this machine
locale = "es-AR"                              # default: English
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime as DateTime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.sources.functions import FunctionSource, tool

NAME = "get_datetime"

_LOCALTIME = Path("/etc/localtime")
_NO_ZONES = {"Factory", "localtime", "posixrules"}
"""Files among the zones that are none."""
_SUGGESTED = 3
"""The largest number of suggestions by each way of looking for them."""
_ZONES = "zoneinfo"
"""The folder of zones to which the machine's own zone is a link."""


def datetime(*, timezone: str | None = None, locale: str = "en", parts: Parts) -> FunctionSource:
    """Returns the source. Raises `ConfigError` for a zone or a locale that does not exist."""
    zone = _machine_zone() if timezone is None else timezone
    if _zone(zone) is None:
        raise ConfigError(f"source 'datetime': there is no timezone {zone!r}; {_close_zones(zone)}")
    category = Category(name="time", keywords=("time", "date", "today", "now", "clock", "weekday", "timezone"))
    function = _tool(zone, _locale(locale), parts.clock)
    return FunctionSource("datetime", [function], [category], claims=[NAME])


def _tool(default: str, locale: Locale, clock: Callable[[], float]) -> Callable[..., Any]:
    async def get_datetime(timezone: str = "") -> ToolResult:
        """Tell the current date, time and weekday.

        Args:
            timezone: An IANA timezone such as Europe/Madrid. Empty: the user's own.
        """
        zone = _zone(timezone or default)
        if zone is None:
            return failed(f"timezone: there is no {timezone[:100]!r}; {_close_zones(timezone)}", "invalid_arguments")
        return _result(DateTime.fromtimestamp(clock(), zone), zone, locale)

    return tool(get_datetime, read_only=True, open_world=False, polling=True, category="time", hints=("now", "today"))


def _result(now: DateTime, zone: ZoneInfo, locale: Locale) -> ToolResult:
    values = {
        "date": format_date(now.date(), "long", locale=locale),
        "time": format_time(now, "HH:mm:ss", locale=locale),
        "weekday": format_date(now.date(), "EEEE", locale=locale),
        "timezone": f"{zone.key} (UTC{now.strftime('%z')[:3]}:{now.strftime('%z')[3:5]})",
        "iso": now.isoformat(timespec="seconds"),
    }
    return ToolResult(
        content="\n".join(f"{name}: {value}" for name, value in values.items()),
        structured={**values, "timezone": zone.key},
    )


def _zone(name: str) -> ZoneInfo | None:
    """Returns a zone by its IANA name, in any case. None: there is none."""
    key = _names().get(name.strip().lower().replace(" ", "_"))
    return None if key is None else ZoneInfo(key)


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Returns the names of all zones by their lower-case form."""
    return {name.lower(): name for name in available_timezones() - _NO_ZONES}


def _close_zones(name: str) -> str:
    """Returns a suggestion of zones whose city, or whole name, is spelt like the name."""
    plain = name[:100].strip().lower().replace(" ", "_")
    cities = {lower.rpartition("/")[2]: zone for lower, zone in sorted(_names().items(), reverse=True)}
    close = [cities[city] for city in get_close_matches(plain.rpartition("/")[2], cities, _SUGGESTED)]
    close += [_names()[lower] for lower in get_close_matches(plain, _names(), _SUGGESTED)]
    suggested = ", ".join(dict.fromkeys(close))
    return f"did you mean {suggested}?" if suggested else "give an IANA name such as Europe/Madrid or UTC"


def _machine_zone() -> str:
    """Returns the zone of this machine: the variable TZ, or where /etc/localtime leads. UTC if neither names a zone."""
    variable = os.environ.get("TZ", "").removeprefix(":")
    if _zone(variable) is not None:
        return variable
    folder, _, name = str(_LOCALTIME.resolve()).partition(f"/{_ZONES}/")
    return name if name and folder and _zone(name) is not None else "UTC"


def _locale(name: str) -> Locale:
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        raise ConfigError(
            f"source 'datetime': there is no locale {name!r}; write a language, or language and country, such as es-AR"
        ) from error
