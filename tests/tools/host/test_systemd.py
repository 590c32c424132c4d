"""The group `systemd`, through a runtime, against a real systemd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.tools.host.systemd_calling import NAMES, Caller, begun, calling, group_of, systemd_with_units
from tests.tools.host.systemd_rig import RealSystemd

pytestmark = [pytest.mark.anyio, pytest.mark.proves("R004-27")]


@pytest.fixture(scope="module")
def world() -> Iterator[RealSystemd]:
    with systemd_with_units() as world:
        yield world


@pytest.fixture
async def call(world: RealSystemd) -> AsyncIterator[Caller]:
    async with calling(world) as caller:
        yield caller


async def test_the_group_has_the_eight_tools() -> None:
    group = group_of()
    tools = {tool.name: tool for tool in group.source.tools()}
    assert list(tools) == NAMES
    assert [name for name in NAMES if tools[name].annotations.read_only] == NAMES[:2]
    assert [name for name in NAMES if tools[name].annotations.destructive] == NAMES[2:]


async def test_the_status_of_a_unit_says_how_it_is(call: Caller) -> None:
    status = await call.value("unit_status", "sleeper.service")
    assert (status["active"], status["sub"], status["load"]) == ("inactive", "dead", "loaded")
    assert status["description"] == "Test sleeper.service"
    assert status["unit_file"] == "disabled"


async def test_a_name_without_type_means_a_service(call: Caller) -> None:
    assert (await call.value("unit_status", "sleeper"))["unit"] == "sleeper.service"
    assert (await call.value("unit_status", "default.target"))["unit"] == "default.target"


async def test_an_unknown_unit_is_no_inactive_one(call: Caller) -> None:
    assert "there is no such unit" in await call.error("unit_status", "absent.service")


async def test_units_are_listed_by_type_and_state(call: Caller) -> None:
    await call.value("start_unit", "sleeper")
    listed = await call.value("list_units", state="running")
    assert "sleeper.service" in {each["unit"] for each in listed["units"]}
    assert all(each["unit"].endswith(".service") and each["sub"] == "running" for each in listed["units"])
    targets = await call.value("list_units", unit_type="target")
    assert "default.target" in {each["unit"] for each in targets["units"]}
    await call.value("stop_unit", "sleeper")
    assert (await call.value("list_units", state="no-such-state"))["units"] == []


async def test_a_list_that_is_cut_says_so(call: Caller) -> None:
    listed = await call.value("list_units", unit_type="all", limit=3)
    assert len(listed["units"]) == 3
    assert listed["note"].startswith(f"{listed['total'] - 3} more are not shown")


async def test_only_units_that_may_be_read_are_shown(world: RealSystemd) -> None:
    async with calling(world, readable=("default.*",)) as call:
        assert [each["unit"] for each in (await call.value("list_units", unit_type="all"))["units"]] == [
            "default.target"
        ]
        assert "sleeper.service may not be read" in await call.error("unit_status", "sleeper")


# --- starting and stopping -------------------------------------------------------------------------------------------------


async def test_a_unit_is_started_restarted_and_stopped_when_the_call_returns(world: RealSystemd, call: Caller) -> None:
    started = await call.value("start_unit", "sleeper")
    assert (started["active"], world.control("is-active", "sleeper").stdout) == ("active", "active\n")
    restarted = await call.value("restart_unit", "sleeper")
    assert restarted["main_pid"] not in (0, started["main_pid"])
    stopped = await call.value("stop_unit", "sleeper")
    assert (stopped["active"], world.control("is-active", "sleeper").stdout) == ("inactive", "inactive\n")


async def test_a_service_that_fails_to_start_is_a_failed_result_with_its_end(call: Caller) -> None:
    error = await call.error("start_unit", "fails")
    assert "start of fails.service failed" in error
    assert "result exit-code" in error
    assert "exit status 3" in error


async def test_a_service_that_runs_once_has_succeeded(call: Caller) -> None:
    assert (await call.value("start_unit", "once"))["result"] == "success"


async def test_a_service_whose_condition_does_not_hold_was_not_started(call: Caller) -> None:
    assert "a condition of its unit file does not hold" in await call.error("start_unit", "unmet")


async def test_a_masked_unit_is_said_to_be_masked(call: Caller) -> None:
    assert "masked.service: it is masked" in await call.error("start_unit", "masked")


async def test_a_job_that_does_not_end_is_no_success(world: RealSystemd) -> None:
    async with calling(world, job_timeout=0.2) as call:
        assert "has not ended within 0.2 s and goes on" in await call.error("start_unit", "slow")
    text = await asyncio.to_thread(begun, world)
    assert text == "begun\n"
    world.control("stop", "slow")


async def test_a_job_that_is_cancelled_by_another_is_no_success(world: RealSystemd, call: Caller) -> None:
    start = asyncio.create_task(call("start_unit", "slow"))
    await asyncio.to_thread(begun, world)
    await call.value("stop_unit", "slow")
    result = await start
    assert result.is_error
    assert "systemd's job ended as canceled" in result.text


async def test_a_unit_is_enabled_and_disabled(world: RealSystemd, call: Caller) -> None:
    link = world.units / "default.target.wants/sleeper.service"
    enabled = await call.value("enable_unit", "sleeper")
    assert (enabled["unit_file"], link.is_symlink()) == ("enabled", True)
    assert str(link) in enabled["changes"][0]
    assert "sleeper.service" in world.control("show", "-p", "Wants", "default.target").stdout
    assert (await call.value("disable_unit", "sleeper"))["unit_file"] == "disabled"
    assert not link.is_symlink()
    assert "sleeper.service" not in world.control("show", "-p", "Wants", "default.target").stdout


async def test_a_unit_that_cannot_be_enabled_is_a_failed_result(call: Caller) -> None:
    assert "has no section [Install]" in await call.error("enable_unit", "fixed")
    assert "the state of its unit file is static" in await call.error("disable_unit", "fixed")
    assert "there is no such unit" in await call.error("enable_unit", "absent")


async def test_a_changed_unit_file_counts_after_a_reload(world: RealSystemd, call: Caller) -> None:
    world.service("new.service", "/bin/true", service="Type=oneshot\nRemainAfterExit=yes")
    await call.value("start_unit", "new")
    world.service("new.service", "/bin/false", service="Type=oneshot")
    await call.value("restart_unit", "new")
    assert (await call.value("reload_daemon"))["reloaded"]
    assert "exit status 1" in await call.error("restart_unit", "new")
