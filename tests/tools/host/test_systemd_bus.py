"""The bus of the group `systemd`: one that is missing, refuses or dies, and many requests at once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.systemd_calling import NAMES, Caller, begun, calling, group_of, systemd_with_units
from tests.tools.host.systemd_rig import RealSystemd, bus_alone
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.states import BackEnd
from toolcaddie.tools.host.groups import Group

pytestmark = [pytest.mark.anyio, pytest.mark.proves("R004-27")]


@pytest.fixture(scope="module")
def world() -> Iterator[RealSystemd]:
    with systemd_with_units() as world:
        yield world


@pytest.fixture
async def call(world: RealSystemd) -> AsyncIterator[Caller]:
    async with calling(world) as caller:
        yield caller


async def test_a_machine_without_the_bus_gets_clear_failed_results(tmp_path: Path) -> None:
    async with calling(bus=f"unix:path={tmp_path}/bus") as call:
        for name in NAMES:
            result = await call.runtime.call(name, {"unit": "sleeper"} if name.endswith(("status", "_unit")) else {})
            assert result.error == "failed"
            assert "there is no D-Bus at unix:path=" in result.text


async def test_a_machine_without_the_package_is_told_what_to_install(
    world: RealSystemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "toolcaddie.tools.host.dbus.link", raising=False)
    monkeypatch.setitem(sys.modules, "dbus_fast", None)
    async with calling(world) as call:
        assert "install toolcaddie[host]" in await call.error("list_units")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "did not answer ListUnitsByPatterns within 0.3 s"),
        ([b"\xff\xfe\r\n"], "there is no D-Bus at"),
        ([b"REJECTED ANONYMOUS\r\n"], "authentication failed"),
        ([b"OK 1234\r\n", b"\xff" * 300], "there is no D-Bus at"),
    ],
)
async def test_a_socket_that_is_no_bus_is_a_clear_failed_result(
    tmp_path: Path, answers: list[bytes], message: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(1000)
            writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "bus")
    async with calling(bus=f"unix:path={tmp_path}/bus", timeout=0.3) as call:
        assert message in await call.error("list_units")
    server.close()


async def test_a_bus_without_systemd_is_a_clear_failed_result() -> None:
    with bus_alone() as address:
        async with calling(bus=address) as call:
            assert "systemd is not on this bus" in await call.error("list_units")


async def test_the_doctor_learns_the_version_or_the_reason(world: RealSystemd, tmp_path: Path) -> None:
    for bus, present in ((world.address, True), (f"unix:path={tmp_path}/bus", False)):
        (fact,) = await _facts(group_of(bus))
        assert fact.present is present
        assert ("systemd 2" in fact.detail) is present
        assert bool(fact.remedy) is not present


async def test_what_the_bus_denies_is_a_clear_failed_result() -> None:
    with systemd_with_units(denied="org.freedesktop.systemd1.Manager.StartUnit") as world:
        async with calling(world) as call:
            assert "systemd does not allow it to the user of this process" in await call.error("start_unit", "sleeper")


async def test_without_the_permission_to_keep_a_unit_loaded_no_success_is_claimed_that_was_not_seen() -> None:
    with systemd_with_units(denied="org.freedesktop.systemd1.Unit.Ref") as world:
        async with calling(world) as call:
            assert (await call.value("start_unit", "sleeper"))["active"] == "active"
            assert "systemd has forgotten whether it ran" in await call.error("start_unit", "unmet")


async def test_a_systemd_that_dies_fails_the_calls_that_wait_for_it() -> None:
    with systemd_with_units() as world:
        async with calling(world) as call:
            start = asyncio.create_task(call("start_unit", "slow"))
            await asyncio.to_thread(begun, world)
            world.kill()
            assert "lost before the job had ended" in (await start).text


async def test_a_signal_of_somebody_else_ends_no_job(world: RealSystemd, call: Caller) -> None:
    start = asyncio.create_task(call("start_unit", "slow"))
    await asyncio.to_thread(begun, world)
    job = world.control("list-jobs", "--no-legend").stdout.split()[0]
    path = f"/org/freedesktop/systemd1/job/{job}"
    for receiver in ("", *world.names_on_the_bus()):
        world.emit(receiver, "JobRemoved", "uoss", job, path, "slow.service", "done")
    await call.value("list_units")  # whose answer comes after the signals
    assert not start.done()
    await call.value("stop_unit", "slow")
    assert "systemd's job ended as canceled" in (await start).text


async def test_a_cancelled_call_leaves_nothing_behind(world: RealSystemd, call: Caller) -> None:
    await call.value("list_units")
    before = in_use()
    start = asyncio.create_task(call("start_unit", "slow"))
    await asyncio.to_thread(begun, world)
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)
    assert (await call.value("stop_unit", "slow"))["active"] in ("inactive", "failed")
    assert in_use() == before


async def test_settings_that_cannot_work_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="is no socket of this machine"):
        group_of("tcp:host=203.0.113.5,port=1")
    with pytest.raises(ConfigError, match=r"systemd\.units: 'a b' is no name of a unit"):
        group_of(units=("a b",))


def test_one_group_serves_one_event_loop_after_another(world: RealSystemd) -> None:
    group = group_of(world.address)
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        (fact,) = asyncio.run(_facts(group))
        assert fact.present
    assert len(os.listdir("/proc/self/fd")) == open_files


def in_use() -> tuple[int, int]:
    """Returns the number of open sockets and pipes of this process, and of its tasks."""
    links = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    return sum(("socket:" in link or "pipe:" in link) for link in links), len(asyncio.all_tasks())


async def _facts(group: Group) -> Sequence[BackEnd]:
    source: Any = group.source
    try:
        return await group.back_ends()
    finally:
        await source.close()


async def test_a_hundred_requests_at_once_each_get_their_own_unit(world: RealSystemd, call: Caller) -> None:
    await call.value("list_units")
    before = in_use()
    names = [f"many@{number}.service" for number in range(100)]
    started = await asyncio.gather(*(call.value("start_unit", name) for name in names))
    assert [each["unit"] for each in started] == names
    assert len({each["main_pid"] for each in started}) == 100
    read = await asyncio.gather(*(call.value("unit_status", name) for name in names))
    assert [each["main_pid"] for each in read] == [each["main_pid"] for each in started]
    mixed = await asyncio.gather(
        *(call("stop_unit", name) if number % 2 else call("start_unit", "fails") for number, name in enumerate(names))
    )
    assert [each.is_error for each in mixed] == [number % 2 == 0 for number in range(100)]
    assert [each.structured["unit"] for each in mixed if each.structured] == names[1::2]
    assert in_use() == before
    world.control("stop", "many@*.service")
