"""The group `systemd`: tools that read, start and stop the units of systemd."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.sources.functions import tool
from toolcaddie.tools.host.connected import ConnectedSource
from toolcaddie.tools.host.extra import remedy_of
from toolcaddie.tools.host.groups import Group
from toolcaddie.tools.host.systemd.manager import Manager
from toolcaddie.tools.host.systemd.settings import Access, SystemdSettings
from toolcaddie.tools.host.systemd.tools import SystemdTools

_CATEGORY = Category(
    name="systemd",
    description="Services and other units of this machine.",
    keywords=("service", "systemd", "systemctl", "daemon", "unit", "boot"),
)
_READING = ("systemd_unit_status", "systemd_list_units")
_CHANGING = (
    "systemd_start_unit",
    "systemd_stop_unit",
    "systemd_restart_unit",
    "systemd_enable_unit",
    "systemd_disable_unit",
    "systemd_reload_daemon",
)
"""Tools that may interrupt what runs: starting a unit can stop others. So a person is asked before each of them."""
_TOOLS = (*_READING, *_CHANGING)


def systemd(settings: SystemdSettings = SystemdSettings()) -> Group:  # noqa: B008  frozen
    """Returns the group. Raises `ConfigError`."""
    access = Access(settings)
    manager = Manager(settings.bus, timeout=settings.timeout, job_timeout=settings.job_timeout)
    tools = SystemdTools(manager, access)
    seconds = settings.job_timeout + 4 * settings.timeout  # a job, and the calls around it
    functions = [
        tool(
            getattr(tools, name),
            category="systemd",
            read_only=name in _READING,
            destructive=name in _CHANGING,
            timeout=seconds,
        )
        for name in _TOOLS
    ]
    source = ConnectedSource(
        "host-systemd",
        functions,
        _CATEGORY,
        claims=_TOOLS,
        assess=tools.assess,
        close=manager.close,
    )

    async def back_ends() -> Sequence[BackEnd]:
        return [await back_end(manager)]

    return Group(name="systemd", source=source, back_ends=back_ends)


async def back_end(manager: Manager) -> BackEnd:
    """Returns whether systemd answers, and its version."""
    name = "systemd over D-Bus"
    try:
        version = await manager.version()
    except HostError as error:
        remedy = remedy_of(error, "run on a machine that systemd has booted, or set the address of its bus")
        return BackEnd(name=name, present=False, detail=str(error), remedy=remedy)
    return BackEnd(name=name, present=True, detail=f"systemd {version} on {manager.place}")
