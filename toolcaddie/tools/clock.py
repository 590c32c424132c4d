"""The source `datetime`: the tool `get_datetime`.

[[source]]
type = "datetime"
timezone = "America/Argentina/Buenos_Aires"   # default: the zone of this machine
locale = "es-AR"                              # default: English
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime as DateTime
from typing import Any
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.util.zones import close_zones, machine_zone, zone_of

NAME = "get_datetime"


def datetime(*, timezone: str | None = None, locale: str = "en", parts: Parts) -> FunctionSource:
    """Returns the source. Raises `ConfigError` for a zone or a locale that does not exist."""
    zone = machine_zone() if timezone is None else timezone
    if zone_of(zone) is None:
        raise ConfigError(f"source 'datetime': there is no timezone {zone!r}; {close_zones(zone)}")
    category = Category(name="time", keywords=("time", "date", "today", "now", "clock", "weekday", "timezone"))
    function = _tool(zone, _locale(locale), parts.clock)
    return FunctionSource("datetime", [function], [category], claims=[NAME])


def _tool(default: str, locale: Locale, clock: Callable[[], float]) -> Callable[..., Any]:
    async def get_datetime(timezone: str = "") -> ToolResult:
        """Tell the current date, time and weekday.

        Args:
            timezone: An IANA timezone such as Europe/Madrid. Empty: the user's own.
        """
        zone = zone_of(timezone or default)
        if zone is None:
            return failed(f"timezone: there is no {timezone[:100]!r}; {close_zones(timezone)}", "invalid_arguments")
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


def _locale(name: str) -> Locale:
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        raise ConfigError(
            f"source 'datetime': there is no locale {name!r}; write a language, or language and country, such as es-AR"
        ) from error
