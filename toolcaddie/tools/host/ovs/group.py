"""The group `ovs`: tools for bridges of Open vSwitch, their ports and their flows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import cast

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.sources.functions import tool
from toolcaddie.sources.functions.options import ToolOptions
from toolcaddie.tools.host.connected import ConnectedSource
from toolcaddie.tools.host.groups import Group
from toolcaddie.tools.host.ovs.bridges import Bridges
from toolcaddie.tools.host.ovs.ovsdb import Ovsdb
from toolcaddie.tools.host.ovs.settings import OvsSettings, address_of
from toolcaddie.tools.host.ovs.tools import READING, OvsTools

_CATEGORY = Category(
    name="ovs",
    description="Open vSwitch: bridges, ports and flows.",
    keywords=("openvswitch", "bridge", "switch", "port", "flow", "openflow", "vlan"),
)
_DESTROYS: ToolOptions = {"destructive": True}
_TOOLS: Mapping[str, ToolOptions] = {
    **{name: {"read_only": True} for name in READING},
    "ovs_add_bridge": _DESTROYS,  # nothing is lost, but a person is asked before a machine changes
    "ovs_del_bridge": _DESTROYS,
    "ovs_add_port": _DESTROYS,  # a device that becomes a port no longer works as one of the machine
    "ovs_del_port": _DESTROYS,
    "ovs_add_flow": _DESTROYS,  # replaces another one, and may cut off traffic
    "ovs_del_flows": _DESTROYS,
}
_REQUESTS = 8
"""The most requests that one call makes, each with the time of the settings."""


def ovs(settings: OvsSettings = OvsSettings()) -> Group:  # noqa: B008  frozen
    """Returns the group. Raises `ConfigError`."""
    database = Ovsdb(address_of(settings.database), settings.timeout)
    tools = OvsTools(Bridges(settings, database))
    seconds = _REQUESTS * settings.timeout
    functions = [
        tool(getattr(tools, name), **cast("ToolOptions", {"category": "ovs", "timeout": seconds, **options}))
        for name, options in _TOOLS.items()
    ]
    source = ConnectedSource("host-ovs", functions, _CATEGORY, claims=_TOOLS, assess=tools.assess, close=database.close)

    async def parts() -> Sequence[BackEnd]:
        return await back_ends(settings, database)

    return Group(name="ovs", source=source, back_ends=parts)


async def back_ends(settings: OvsSettings, database: Ovsdb) -> Sequence[BackEnd]:
    """Returns whether the database and the daemon of Open vSwitch are there."""
    remedy = "install and start Open vSwitch, or set ovs.database to the address of ovsdb-server"
    try:
        is_served = await database.is_served()
    except HostError as error:
        return [BackEnd(name="Open vSwitch", present=False, detail=str(error), remedy=remedy)]
    if not is_served:
        remedy = "start ovs-vswitchd; until then nothing can be changed"
        detail = "ovsdb-server answers, but ovs-vswitchd is not running"
        return [BackEnd(name="Open vSwitch", present=False, detail=detail, remedy=remedy)]
    if not os.path.isdir(settings.folder):  # noqa: ASYNC240  one call that does not wait
        detail = f"the folder {settings.folder} does not exist, so flows cannot be read or changed"
        remedy = "set ovs.folder to the folder of the sockets BRIDGE.mgmt"
        return [BackEnd(name="Open vSwitch", present=False, detail=detail, remedy=remedy)]
    return [
        BackEnd(name="Open vSwitch", present=True, detail=f"database {settings.database}, sockets in {settings.folder}")
    ]
