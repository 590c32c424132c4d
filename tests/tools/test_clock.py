"""`get_datetime`, through the runtime."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from toolcaddie import PracticeModel, Runtime
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.testing.part_contracts import SOURCE, Subject, check_all

pytestmark = pytest.mark.anyio

SUNDAY = 1_741_500_000.0
"""2025-03-09 06:00:00 UTC, an hour before New York's clocks go forward."""


def source(now: float = SUNDAY, **config: Any) -> Any:
    return Registry().make("source", "datetime", config, Parts(clock=lambda: now))


async def called(arguments: dict[str, Any] | None = None, now: float = SUNDAY, **config: Any) -> ToolResult:
    async with Runtime(provider=PracticeModel(), sources=[source(now, **config)]) as runtime:
        return await runtime.call("get_datetime", arguments or {})


@pytest.mark.proves("R002-61")
async def test_it_tells_date_time_weekday_zone_and_iso() -> None:
    result = await called({"timezone": "Europe/Madrid"})
    assert result.text == (
        "date: March 9, 2025\ntime: 07:00:00\nweekday: Sunday\ntimezone: Europe/Madrid (UTC+01:00)\n"
        "iso: 2025-03-09T07:00:00+01:00"
    )
    assert result.structured == {
        "date": "March 9, 2025",
        "time": "07:00:00",
        "weekday": "Sunday",
        "timezone": "Europe/Madrid",
        "iso": "2025-03-09T07:00:00+01:00",
    }


@pytest.mark.proves("R002-62")
async def test_zone_and_locale_are_settings() -> None:
    result = await called(timezone="America/Argentina/Buenos_Aires", locale="es-AR")
    assert "date: 9 de marzo de 2025\ntime: 03:00:00\nweekday: domingo\n" in result.text
    assert result.text.endswith("2025-03-09T03:00:00-03:00")


@pytest.mark.parametrize(
    ("seconds", "iso"),
    [(3_599, "2025-03-09T01:59:59-05:00"), (3_600, "2025-03-09T03:00:00-04:00")],
)
async def test_the_hour_that_summer_time_leaves_out_is_never_told(seconds: int, iso: str) -> None:
    assert (await called({"timezone": "america/new_york"}, now=SUNDAY + seconds)).structured["iso"] == iso


@pytest.mark.proves("R002-62")
@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("Europe/Madird", "Europe/Madrid"),
        ("madrid", "Europe/Madrid"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("../../etc/passwd", "Europe/Madrid or UTC"),
        ("\0", "Europe/Madrid or UTC"),
        ("x" * 100_000, "Europe/Madrid or UTC"),
    ],
)
async def test_a_zone_that_does_not_exist_is_a_failed_result_with_close_names(name: str, suggested: str) -> None:
    result = await called({"timezone": name})
    assert (result.is_error, result.error) == (True, "invalid_arguments")
    assert suggested in result.text
    assert len(result.text) < 500


@pytest.mark.parametrize("config", [{"timezone": "Nowhere"}, {"locale": "xx-YY-zz"}, {"locale": ""}, {"zone": "UTC"}])
def test_a_wrong_setting_is_refused_at_start(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        source(**config)


@pytest.fixture
def machine_in_tokyo() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    yield
    del os.environ["TZ"]
    if before is not None:
        os.environ["TZ"] = before


async def test_without_a_setting_the_zone_is_that_of_the_machine(machine_in_tokyo: None) -> None:
    assert (await called()).structured["iso"] == "2025-03-09T15:00:00+09:00"


async def test_the_hosts_clock_is_asked() -> None:
    part = Registry().make("source", "datetime", {"timezone": "UTC"}, Parts())
    async with Runtime(provider=PracticeModel(), sources=[part]) as runtime:
        told = datetime.fromisoformat((await runtime.call("get_datetime", {})).structured["iso"])
    assert abs(told.timestamp() - time.time()) < 5


async def test_the_tool_only_reads_and_the_source_keeps_its_contract() -> None:
    (tool,) = source().tools()
    assert (tool.name, tool.annotations.read_only, tool.annotations.open_world) == ("get_datetime", True, False)
    await check_all(Subject(name="datetime", make=source), SOURCE)
