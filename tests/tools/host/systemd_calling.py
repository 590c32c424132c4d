"""Calls of the tools of the group `systemd`, through a runtime that allows everything, and the units of the tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tests.tools.host.systemd_rig import RealSystemd, real_systemd
from toolcaddie import PracticeModel, Runtime
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.host import host
from toolcaddie.tools.host.groups import Group
from toolcaddie.tools.host.systemd import SystemdSettings
from toolcaddie.tools.host.systemd.plugin import systemd

NAMES = [
    "systemd_unit_status",
    "systemd_list_units",
    "systemd_start_unit",
    "systemd_stop_unit",
    "systemd_restart_unit",
    "systemd_enable_unit",
    "systemd_disable_unit",
    "systemd_reload_daemon",
]
ALLOWED = ("sleeper", "fails", "once", "unmet", "masked", "fixed", "nick", "absent", "slow", "many@*.service", "new")


@contextmanager
def systemd_with_units(*, denied: str = "") -> Iterator[RealSystemd]:
    """Runs a systemd with one unit of each behaviour."""
    with real_systemd(denied=denied) as world:
        world.service("sleeper.service", "/bin/sleep 1000")
        world.service("other.service", "/bin/sleep 1000")
        world.service("fails.service", "/bin/sh -c 'exit 3'", service="Type=oneshot")
        world.service("once.service", "/bin/true", service="Type=oneshot")
        world.service("unmet.service", "/bin/sleep 1000", unit="ConditionPathExists=/no/such/path")
        world.service("fixed.service", "/bin/sleep 1000", install=False)
        world.service(
            "slow.service", f"/bin/sh -c 'echo begun >{world.folder}/begun; sleep 1000'", service="Type=oneshot"
        )
        world.service("many@.service", "/bin/sleep 1000")
        (world.units / "masked.service").symlink_to("/dev/null")
        (world.units / "nick.service").symlink_to("other.service")
        os.mkfifo(world.folder / "begun")
        yield world


def begun(world: RealSystemd) -> str:
    """Waits until `slow.service` has begun to start."""
    return (world.folder / "begun").read_text()


def group_of(bus: str = "", **settings: Any) -> Group:
    """Returns the group alone."""
    (group,) = host(groups=("systemd",), systemd=SystemdSettings(bus=bus, **settings), parts=Parts()).groups
    return group


class Caller:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def __call__(self, name: str, unit: str | None = None, **arguments: Any) -> ToolResult:
        return await self.runtime.call(f"systemd_{name}", arguments if unit is None else {"unit": unit, **arguments})

    async def value(self, name: str, unit: str | None = None, **arguments: Any) -> Any:
        result = await self(name, unit, **arguments)
        assert not result.is_error, result.text
        return result.structured

    async def error(self, name: str, unit: str | None = None, **arguments: Any) -> str:
        result = await self(name, unit, **arguments)
        assert result.is_error, result.text
        return result.text


@asynccontextmanager
async def calling(
    world: RealSystemd | None = None, *, policy: Policy | None = None, **settings: Any
) -> AsyncIterator[Caller]:
    """Yields a caller of the tools of the group and of the plugin. `policy`: everything is allowed if there is none."""
    bus = {} if world is None else {"bus": world.address}
    chosen = SystemdSettings(**{"units": ALLOWED, **bus, **settings})
    registry = Registry()
    registry.add("state", "systemd", systemd)
    parts = Parts(store=MemoryStore())
    source = host(groups=("systemd", "plugins"), plugins=("systemd",), systemd=chosen, parts=parts, registry=registry)
    async with Runtime(provider=PracticeModel(), sources=[source], policy=policy or AllowAll()) as runtime:
        yield Caller(runtime)
