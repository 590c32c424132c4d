"""Limits of calls: the table `limits` of the source `phone`."""

from __future__ import annotations

import re
from datetime import time as Time
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Meta, Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.tools.phone.numbers import is_country

MessageLength = Annotated[int, Meta(ge=1, le=1_000)]
CallSeconds = Annotated[int, Meta(ge=10, le=600)]
Calls = Annotated[int, Meta(ge=0, le=10_000)]
Dollars = Annotated[float, Meta(ge=0, le=10_000)]

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class CallLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of all calls of the source, for all bots and people together where nothing else is said."""

    countries: tuple[str, ...] | None = None
    """Countries that may be called, as two letters; None: only that of the caller's number."""
    calls_per_day: Calls = 10
    """For each bot of each tenant. Days begin at midnight in `timezone`."""
    calls_per_number: Calls = 3
    """Calls of one number in a day."""
    dollars_per_day: Dollars = 5.0
    price_per_minute: Dollars = 0.5
    """The highest price of a minute to any of the countries. A call counts as if it lasted for `seconds_per_call`."""
    seconds_per_call: CallSeconds = 120
    """A longer call is ended."""
    message_length: MessageLength = 500
    """Characters of a message."""
    quiet_hours: str = ""
    """Hours without calls: `21:00-09:00`. Empty: there are none."""
    timezone: str = "UTC"
    """IANA timezone of the quiet hours and of the days."""

    @property
    def minutes(self) -> int:
        """Minutes of a call that are paid at most: each that has begun."""
        return -(-self.seconds_per_call // 60)

    @property
    def dollars_per_call(self) -> float:
        """The most that a call may cost."""
        return self.minutes * self.price_per_minute


NO_CALL_LIMITS = CallLimits()
"""The limits of the defaults."""


def zone_of(limits: CallLimits) -> ZoneInfo:
    """Returns the timezone. Raises `ConfigError` if there is none of that name."""
    try:
        return ZoneInfo(limits.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"source 'phone': limits.timezone: there is no timezone {limits.timezone!r}; "
            "give an IANA name such as America/Mexico_City"
        ) from error


def quiet_hours_of(limits: CallLimits) -> tuple[Time, Time] | None:
    """Returns beginning and end of the quiet hours; None: there are none. Raises `ConfigError`."""
    if not limits.quiet_hours:
        return None
    match = _HOURS.fullmatch(limits.quiet_hours)
    if match is None:
        raise ConfigError(
            f"source 'phone': limits.quiet_hours is {limits.quiet_hours!r}; write two times such as 21:00-09:00"
        )
    first, second, third, fourth = map(int, match.groups())
    return Time(first, second), Time(third, fourth)


def countries_of(limits: CallLimits, own: str) -> frozenset[str]:
    """Returns the countries that may be called; `own` is that of the caller's number. Raises `ConfigError`."""
    for name in limits.countries or ():
        if not is_country(name):
            raise ConfigError(
                f"source 'phone': limits.countries: {name!r} is no country; write two capital letters such as MX"
            )
    return frozenset((own,) if limits.countries is None else limits.countries)
