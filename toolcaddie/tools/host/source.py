"""The source `host`: tools with which a model runs a Linux machine.

[[source]]
type = "host"
groups = ["response", "filesystem", "shell", "system", "systemd"]   # default: all groups

[source.systemd]                                                    # settings of a group
units = ["nginx.service"]

[source.plugin.systemd]                                             # settings of a state plugin; this one has those of the
units = ["nginx.service", "app-*.service"]                          # group where it says nothing else
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.numbers import Seconds
from toolcaddie.core.run import RunContext
from toolcaddie.core.states import BackEnd
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.parts import Parts
from toolcaddie.ports import StatePlugin
from toolcaddie.registry import Registry
from toolcaddie.sources.assessing import assessment
from toolcaddie.sources.life import close_sources, open_sources
from toolcaddie.states.changing import Changing
from toolcaddie.states.pending import PendingChanges
from toolcaddie.tools.host.filesystem import DEFAULT_FILESYSTEM, FilesystemSettings, filesystem_group
from toolcaddie.tools.host.groups import Group, looked_at
from toolcaddie.tools.host.ovs import OvsSettings
from toolcaddie.tools.host.ovs import ovs as ovs_group
from toolcaddie.tools.host.plugin_tools import PluginTools
from toolcaddie.tools.host.response import response
from toolcaddie.tools.host.shell import DEFAULT_SHELL, ShellSettings, shell_group
from toolcaddie.tools.host.system import system
from toolcaddie.tools.host.systemd import SystemdSettings, plugin_settings
from toolcaddie.tools.host.systemd import systemd as systemd_group
from toolcaddie.util.replacing import replace

GroupName = Literal["response", "filesystem", "shell", "system", "systemd", "ovs", "plugins"]
GROUPS: tuple[GroupName, ...] = get_args(GroupName)
PLUGINS = (
    "systemd",
    "network",
    "packagekit",
    "firewall",
    "users",
    "storage",
    "lxc",
    "openflow",
    "privacy",
)
"""The state plugins of the default settings, in the order of their tools."""


class HostSource:
    """The tools of all groups. Implements `ports.OpenableSource`, `ports.ClaimingSource` and `ports.AssessingSource`."""

    name = "host"
    revision = 1

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = tuple(groups)
        self._routes = {tool.name: group.source for group in groups for tool in group.source.tools()}
        self._tools = tuple(replace(tool, source=self.name) for group in self.groups for tool in group.source.tools())
        self.claims = frozenset(self._routes)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return [category for group in self.groups for category in group.source.categories()]

    async def open(self) -> None:
        await open_sources([group.source for group in self.groups], _ignore)

    async def close(self) -> None:
        await close_sources([group.source for group in self.groups], _ignore)

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        group = self._routes.get(tool.name)
        if group is None:
            return failed(f"this host has no tool {tool.name!r}; do without it", "revoked")
        return await group.call_tool(tool, arguments, context)

    async def assess(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
        group = self._routes.get(tool.name)
        return NOTHING if group is None else await assessment(group, tool, arguments, context)


def _ignore(status: SourceStatus) -> None:
    """Reports nothing: a group is no source of its own for anybody outside."""


def host(
    *,
    groups: tuple[GroupName, ...] = GROUPS,
    plugins: tuple[str, ...] = PLUGINS,
    plugin: Mapping[str, Mapping[str, Any]] = {},
    systemd: SystemdSettings = SystemdSettings(),  # noqa: B008  frozen
    ovs: OvsSettings = OvsSettings(),  # noqa: B008  frozen
    confirm_seconds: Seconds = 120.0,
    filesystem: FilesystemSettings = DEFAULT_FILESYSTEM,
    shell: ShellSettings = DEFAULT_SHELL,
    parts: Parts,
    registry: Registry | None = None,
) -> HostSource:
    """Returns the source. `plugins`: the state plugins whose tools it has; `plugin`: the settings of each. `confirm_seconds`: the
    time in which a change that may lock people out is confirmed or undone. Raises `ConfigError`."""
    if unused := sorted(set(plugin).difference(plugins)):
        raise ConfigError(
            f"source 'host': there are settings for the plugin {unused[0]!r}, which plugins does not name"
        )

    def states() -> Group:
        made = registry or Registry()
        shared = {"systemd": plugin_settings(systemd), "openflow": msgspec.to_builtins(ovs)}
        return plugins_group(
            [made.make("state", name, {**shared.get(name, {}), **plugin.get(name, {})}, parts) for name in plugins],
            confirm_seconds=confirm_seconds,
            parts=parts,
        )

    makers: Mapping[GroupName, Callable[[], Group]] = {
        "response": response,
        "filesystem": lambda: filesystem_group(filesystem),
        "shell": lambda: shell_group(shell, parts),
        "system": system,
        "systemd": lambda: systemd_group(systemd),
        "ovs": lambda: ovs_group(ovs),
        "plugins": states,
    }
    return HostSource([make() for name, make in makers.items() if name in groups])


def plugins_group(states: Sequence[StatePlugin], *, confirm_seconds: float, parts: Parts) -> Group:
    """Returns the group of the tools of state plugins. Raises `ConfigError` without a store."""
    if parts.store is None:
        raise ConfigError("source 'host': changes that wait need a store; pass one, as in Parts(store=store)")
    pending = PendingChanges(parts.store)
    tools = PluginTools(
        [Changing(state, pending, confirm_seconds=confirm_seconds, clock=parts.clock) for state in states]
    )

    async def back_ends() -> Sequence[BackEnd]:
        each = [(state.name, back_end) for state in states for back_end in await looked_at(state.name, state.back_ends)]
        return [replace(back_end, name=f"{plugin}: {back_end.name}") for plugin, back_end in each]

    return Group(name="plugins", source=tools, back_ends=back_ends)
