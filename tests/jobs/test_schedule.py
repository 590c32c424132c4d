"""Slots of schedules, with a clock that is handed in."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from benchmarks import daylight
from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import At, Cron, Every, Schedule
from toolcaddie.jobs.schedule import back_off, checked, next_slot, next_slots

MADRID = "Europe/Madrid"


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def local(slots: list[float], zone: str = MADRID) -> list[str]:
    return [datetime.fromtimestamp(slot, ZoneInfo(zone)).isoformat() for slot in slots]


def following(expr: str, after: str, most: int = 2) -> list[str]:
    return local(next_slots(Cron(expr=expr), zone=MADRID, after=moment(after), anchor=0, most=most))


def test_a_wall_clock_time_in_the_gap_runs_once_right_after_it() -> None:
    assert following("30 2 * * *", "2027-03-27T12:00+01:00") == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
    ]
    at = next_slot(At(at="2027-03-28T02:30"), zone=MADRID, after=0, anchor=0)
    assert at == moment("2027-03-28T03:00+02:00")


def test_a_wall_clock_time_that_exists_twice_runs_the_first_time_only() -> None:
    expected = ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"]
    assert following("30 2 * * *", "2027-10-30T12:00+02:00") == expected
    # From between the two, the wall clock leads back to a moment that has passed.
    assert following("30 2 * * *", "2027-10-31T02:10+01:00", 1) == ["2027-11-01T02:30:00+01:00"]
    at = next_slot(At(at="2027-10-31T02:30"), zone=MADRID, after=0, anchor=0)
    assert at == moment("2027-10-31T02:30+02:00")


def test_a_pattern_of_every_hour_or_minute_runs_at_every_real_occurrence() -> None:
    assert following("30 * * * *", "2027-10-31T01:45+02:00", 3) == [
        "2027-10-31T02:30:00+02:00",
        "2027-10-31T02:30:00+01:00",
        "2027-10-31T03:30:00+01:00",
    ]
    assert following("*/30 * * * *", "2027-03-28T01:15+01:00") == [
        "2027-03-28T01:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
    ]


def test_ten_zones_are_right_around_both_changes_of_the_year() -> None:
    rows = list(daylight.table())
    assert len({(row.zone, row.change) for row in rows}) == 20
    assert [row for row in rows if not row.is_right] == []


def test_every_counts_from_the_moment_at_which_the_job_was_made_and_does_not_drift() -> None:
    assert next_slots(Every(every_ms=90_000), zone="UTC", after=1_000.0, anchor=1_000.0, most=2) == [1_090.0, 1_180.0]
    assert next_slot(Every(every_ms=90_000), zone="UTC", after=1_200.0, anchor=1_000.0) == 1_270.0
    assert next_slot(Every(every_ms=90_000), zone="UTC", after=1_270.0, anchor=1_000.0) == 1_360.0


def test_a_date_with_an_offset_is_a_moment_and_one_without_is_in_the_zone_of_the_settings() -> None:
    for text in ("2027-06-01T09:00+02:00", "2027-06-01T09:00", "2027-06-01T07:00:00Z"):
        assert checked(At(at=text), zone=MADRID, now=0, least=60) == moment("2027-06-01T07:00+00:00")


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (At(at="2020-01-01T00:00"), "in the past; it is 2027-01-01T01:00:00+01:00 now"),
        (At(at="tomorrow"), "'tomorrow' is not a date of the calendar in ISO 8601"),
        (At(at="2027-02-30T09:00"), "'2027-02-30T09:00' is not a date of the calendar"),
        (At(at="9" * 200), "is not a date of the calendar in ISO 8601"),
        (Every(every_ms=59_999), "59,999 ms is not between 60,000 ms"),
        (Every(every_ms=0), "0 ms is not between"),
        (Every(every_ms=10**17), "and 100 years"),
        (Cron(expr="* * * * * *"), "has not five fields"),
        (Cron(expr="61 * * * *"), "has a wrong minute"),
        (Cron(expr="0 0 30 2 *"), "'0 0 30 2 *' never happens: no month that it names has such a day"),
        (Cron(expr="0 0 31 4,6 *"), "never happens"),
        (Cron(expr="0 0 32 2 *"), "has a wrong day-of-month"),
        (Cron(expr="0 0 29 2 MON#6"), "has a wrong day-of-week"),
        (Cron(expr="0 9 * * *", tz="Europe/Madird"), "did you mean Europe/Madrid"),
        (Cron(expr="0 9 * * *", tz="../../etc/passwd"), "there is no timezone"),
    ],
)
def test_a_wrong_schedule_is_refused_with_what_is_wrong(schedule: Schedule, reason: str) -> None:
    with pytest.raises(RequestError) as error:
        checked(schedule, zone=MADRID, now=moment("2027-01-01T00:00+00:00"), least=60)
    assert reason in str(error.value)


@pytest.mark.proves("R002-66")
def test_failures_in_a_row_wait_longer_up_to_an_hour() -> None:
    assert [back_off(count) for count in (0, 1, 2, 3, 4, 5, 6, 99)] == [0, 30, 60, 300, 900, 3600, 3600, 3600]
