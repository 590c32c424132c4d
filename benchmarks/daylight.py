"""Compares slots around both changes of daylight saving with a count of every minute, in ten zones, without the library."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from toolcaddie.core.jobs import Cron
from toolcaddie.jobs.schedule import next_slots

ZONES = (
    "Europe/Madrid",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
)
"""With changes at midnight, by half an hour, and in winter instead of summer among them."""
_YEAR = 2027
_MINUTE = 60
_DAYS = 2 * 86_400


class Change(NamedTuple):
    """A change of the clock: the first moment after it, and the seconds by which the clock was put forward."""

    at: int
    forward: int


class Row(NamedTuple):
    """What was compared: the zone, the change, an expression, and whether all of its slots are right."""

    zone: str
    change: Change
    expr: str
    slots: int
    is_right: bool


def table() -> Iterator[Row]:
    for name in ZONES:
        zone = ZoneInfo(name)
        for change in _changes(zone):
            for expr in _expressions(change, zone):
                start, end = change.at - _DAYS, change.at + _DAYS
                slots = [
                    slot
                    for slot in next_slots(Cron(expr=expr), zone=name, after=start, anchor=0, most=400)
                    if slot <= end
                ]
                yield Row(name, change, expr, len(slots), slots == _counted(expr, zone, start, end))


def _changes(zone: ZoneInfo) -> list[Change]:
    start = int(datetime(_YEAR, 1, 1, tzinfo=zone).timestamp())
    moments = range(start, start + 365 * 86_400, _MINUTE * 15)
    offsets = [_offset(moment, zone) for moment in moments]
    return [
        Change(moment, after - before)
        for moment, before, after in zip(moments[1:], offsets, offsets[1:], strict=False)
        if before != after
    ]


def _expressions(change: Change, zone: ZoneInfo) -> tuple[str, ...]:
    """Returns a time in the middle of the gap or the repeated hour, times around it, and distances."""
    edge = datetime.fromtimestamp(change.at, zone).replace(tzinfo=None)
    middle = (
        edge - timedelta(seconds=change.forward) / 2
        if change.forward > 0
        else edge + timedelta(seconds=-change.forward) / 2
    )
    return (
        f"{middle.minute} {middle.hour} * * *",
        f"{edge.minute} {edge.hour} * * *",
        f"{middle.minute} {middle.hour},{(middle.hour + 5) % 24} * * *",
        "*/30 * * * *",
        "15 * * * *",
    )


def _counted(expr: str, zone: ZoneInfo, start: int, end: int) -> list[float]:
    """Returns the slots after `start` until `end`, by looking at each minute of these days."""
    minutes, hours = expr.split()[:2]
    slots: set[float] = set()
    if minutes.startswith("*") or hours.startswith("*"):
        for moment in range(start // _MINUTE * _MINUTE, end + 1, _MINUTE):
            local = datetime.fromtimestamp(moment, zone)
            fits = local.minute % 30 == 0 if minutes.startswith("*") else local.minute == int(minutes)
            if fits and moment > start:
                slots.add(float(moment))
        return sorted(slots)
    by_clock: dict[tuple[object, int, int], int] = {}
    changes = [change.at for change in _changes(zone)]
    for moment in range(start // _MINUTE * _MINUTE - 86_400, end + 86_400, _MINUTE):
        local = datetime.fromtimestamp(moment, zone)
        by_clock.setdefault((local.date(), local.hour, local.minute), moment)
    for day in {date for date, _, _ in by_clock}:
        for hour in hours.split(","):
            moment = by_clock.get((day, int(hour), int(minutes)))
            if moment is None:  # it does not exist on this day: the first moment after the gap
                moment = next((at for at in changes if datetime.fromtimestamp(at, zone).date() == day), None)
            if moment is not None and start < moment <= end:
                slots.add(float(moment))
    return sorted(slots)


def _offset(moment: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(moment, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
