"""Computes the slots of schedules. Nothing here reads a clock.

    next_slot(Cron(expr="30 2 * * *"), zone="Europe/Madrid", after=clock(), anchor=0.0)

**The rule of daylight saving.** A cron expression with a fixed minute and a fixed hour means a wall-clock time: a time that does
not exist on a day runs once, at the first moment after the gap, and a time that exists twice runs once, the first time. With `*`
as (the beginning of) its minute or hour, an expression means a distance, and runs at every moment that fits: not in the gap, and
twice in the repeated hour. Both are the rules of Debian's cron. A wall-clock `at` follows the first rule. `every` counts seconds
and knows no wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import At, Cron, Every, Schedule
from toolcaddie.util.zones import close_zones, zone_of

BACK_OFF = (30.0, 60.0, 300.0, 900.0, 3_600.0)
"""Seconds for which a job waits after its first failure in a row, its second, and so on; the last one holds for all others."""

_LONGEST = 100
"""The largest number of characters of an expression or a date."""
_FIELDS = 5
_LOOKED_AT = 24
"""The number of slots whose distances are checked."""
_FAR = 366 * 86_400 * 100.0


def next_slot(schedule: Schedule, *, zone: str, after: float, anchor: float) -> float | None:
    """Returns the first slot after a moment, in seconds since the epoch; None: there is none.

    `zone`: for a schedule that names none. `anchor`: the moment from which `every` counts.
    """
    match schedule:
        case At(at=at):
            moment = _moment(at, _zone(zone))
            return moment if moment > after else None
        case Every(every_ms=every):
            step = every / 1000
            return anchor + max(1, math.floor((after - anchor) / step + 1e-9) + 1) * step
        case Cron(expr=expr, tz=tz):
            return next(_fitting(expr, _zone(tz or zone), after), None)


def next_slots(schedule: Schedule, *, zone: str, after: float, anchor: float, most: int) -> list[float]:
    """Returns the first slots after a moment."""
    slots: list[float] = []
    while len(slots) < most:
        slot = next_slot(schedule, zone=zone, after=slots[-1] if slots else after, anchor=anchor)
        if slot is None:
            break
        slots.append(slot)
    return slots


def checked(schedule: Schedule, *, zone: str, now: float, least: float) -> float:
    """Returns the first slot of a new schedule. `least`: seconds that must be between two slots.

    Raises `RequestError` that says what is wrong: an unknown zone, a date in the past, a distance that is too short.
    """
    match schedule:
        case At(at=at):
            first = next_slot(schedule, zone=zone, after=now, anchor=now)
            if first is None:
                local = datetime.fromtimestamp(now, _zone(zone)).isoformat(timespec="seconds")
                raise _refusal("at", f"{at} is in the past; it is {local} now")
            if first > now + _FAR:
                raise _refusal("at", f"{at} is more than 100 years away")
            return first
        case Every(every_ms=every):
            if not least * 1000 <= every <= _FAR * 1000:
                raise _refusal("everyMs", f"{every:,} ms is not between {least * 1000:,.0f} ms and 100 years")
        case Cron(expr=expr):
            if len(expr) > _LONGEST or len(expr.split()) != _FIELDS:
                raise _refusal("expr", f"{expr[:_LONGEST]!r} has not five fields such as '0 9 * * MON-FRI'")
    try:
        slots = next_slots(schedule, zone=zone, after=now, anchor=now, most=_LOOKED_AT)
    except CronSimError as error:
        raise _refusal("expr", _complaint(schedule.expr, error)) from error  # type: ignore[union-attr]
    if not slots:
        raise _refusal("expr", _never(schedule.expr))  # type: ignore[union-attr]
    shortest = min((later - earlier for earlier, later in pairwise(slots)), default=least)
    if shortest < least - 1e-6:
        raise _refusal("schedule", f"two slots are {shortest:g} s apart; the least is {least:g} s")
    return slots[0]


def back_off(failures: int) -> float:
    """Returns the seconds for which a job waits after so many failures in a row."""
    return 0.0 if failures <= 0 else BACK_OFF[min(failures, len(BACK_OFF)) - 1]


def _fitting(expr: str, zone: ZoneInfo, after: float) -> Iterator[float]:
    """Yields the moments after `after` that fit an expression."""
    for moment in CronSim(expr, datetime.fromtimestamp(after, zone)):
        slot = moment.timestamp()
        if slot > after:  # in the repeated hour, the wall clock leads back to a moment that has passed
            yield slot


def _complaint(expr: str, error: CronSimError) -> str:
    """Returns the sentence about an expression that was refused."""
    minute, hour, day, month, weekday = expr.split()
    try:
        for part in (f"{minute} {hour} {day} * {weekday}", f"* * * {month} *"):
            CronSim(part, datetime.fromtimestamp(0, UTC))
    except CronSimError:
        return f"{expr!r} has a wrong {str(error).removeprefix('Bad ')}"
    return _never(expr)  # each field is right, but no such month has such a day


def _never(expr: str) -> str:
    return f"{expr!r} never happens: no month that it names has such a day; change the day or the month"


def _moment(at: str, zone: ZoneInfo) -> float:
    try:
        parsed = datetime.fromisoformat(at.strip()) if len(at) <= _LONGEST else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise _refusal(
            "at",
            f"{at[:_LONGEST]!r} is not a date of the calendar in ISO 8601, such as 2027-03-01T09:00 or 2027-03-01T09:00+01:00",
        )
    try:
        return parsed.timestamp() if parsed.tzinfo is not None else _wall_clock(parsed, zone)
    except (OverflowError, ValueError) as error:
        raise _refusal("at", f"{at!r} is too far away") from error


def _wall_clock(local: datetime, zone: ZoneInfo) -> float:
    """Returns the moment of a wall-clock time: of one that exists twice the first, of one that does not exist the end of its
    gap."""
    there = local.replace(tzinfo=zone, fold=0)
    back = there.astimezone(UTC).astimezone(zone)
    if back.replace(tzinfo=None) == local:
        return there.timestamp()
    # In a gap, the two readings of the time lie on both sides of it, as far apart as the gap is long.
    low, high = sorted((there.timestamp(), local.replace(tzinfo=zone, fold=1).timestamp()))
    before = datetime.fromtimestamp(low, zone).utcoffset() or timedelta()
    low, high = math.floor(low), math.ceil(high)
    while high - low > 1:
        middle = (low + high) // 2
        if (datetime.fromtimestamp(middle, zone).utcoffset() or timedelta()) == before:
            low = middle
        else:
            high = middle
    return float(high)


def _zone(name: str) -> ZoneInfo:
    zone = zone_of(name)
    if zone is None:
        raise _refusal("tz", f"there is no timezone {name[:_LONGEST]!r}; {close_zones(name)}")
    return zone


def _refusal(param: str, text: str) -> RequestError:
    return RequestError(f"{param}: {text}", param=param, code="invalid_schedule")
