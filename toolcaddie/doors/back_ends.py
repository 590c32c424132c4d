"""Looks at the parts of this machine on which the tools of the source `host` depend, for `toolcaddie doctor` and the console."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.app.runtimes import host_parts
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.core.states import BackEnd
from toolcaddie.registry import Registry
from toolcaddie.sources.arranged import arrangement_of
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.host import HostSource
from toolcaddie.tools.host.groups import Group, looked_at

HOST = "host"
"""The type of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The parts of this machine on which one group of tools depends."""

    source: int
    """The number of the source among those of its type in the settings."""
    group: str
    tools: int
    back_ends: Sequence[BackEnd]
    """Empty: the group depends on nothing."""


async def back_ends_of(settings: Settings) -> Sequence[Report]:
    """Returns the reports of all groups. The sources are not opened. Raises `ConfigError`."""
    sandbox = SandboxOnDemand(settings)
    registry, parts = Registry(), host_parts(settings, MemoryStore())
    tables = [part for part in settings.source if part.type == HOST] or [PartSettings(type=HOST)]
    reports: list[Report] = []
    try:
        for number, table in enumerate(tables, 1):
            own, _ = arrangement_of(table.config, registry.config_type("source", HOST))
            source: HostSource = registry.make("source", HOST, own, parts)
            try:
                reports += [await _report(number, group) for group in source.groups]
            finally:
                await source.close()  # the connections that looking has opened
    finally:
        await sandbox.close()
    return reports


async def _report(number: int, group: Group) -> Report:
    back_ends = await looked_at(group.name, group.back_ends)
    return Report(source=number, group=group.name, tools=len(tuple(group.source.tools())), back_ends=back_ends)
