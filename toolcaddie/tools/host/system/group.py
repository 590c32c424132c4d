"""The tools of the group `system`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.tools.host.extra import loaded, remedy_of
from toolcaddie.tools.host.groups import Group
from toolcaddie.tools.host.rtnetlink import Link, exchange, links
from toolcaddie.tools.host.system.facts import InfoType, facts

_SHOWN_LINKS = 500
_SHOWN_ADDRESSES = 50


def procfs_read(info_type: InfoType) -> dict[str, Any]:
    """Read facts about this machine from the kernel: processor, memory, load, uptime, version or mounts."""
    return facts(info_type)


async def list_network_interfaces() -> dict[str, Any]:
    """List the network interfaces: name, state, MAC, MTU and addresses."""
    async with exchange() as kernel:
        present = await links(kernel)
    return {
        "interfaces": [_interface(link) for link in present[:_SHOWN_LINKS]],
        "left_off": max(0, len(present) - _SHOWN_LINKS),
    }


def system() -> Group:
    """Returns the group."""
    functions = [
        tool(function, category="system", read_only=True, idempotent=True, timeout=20)
        for function in (procfs_read, list_network_interfaces)
    ]
    words = ("cpu", "memory", "load", "uptime", "kernel", "mounts", "interfaces")
    category = Category(name="system", description="Facts about this machine.", keywords=words)
    names = [procfs_read.__name__, list_network_interfaces.__name__]
    source = FunctionSource("host-system", functions, [category], claims=names)
    return Group(name="system", source=source, back_ends=back_ends)


async def back_ends() -> Sequence[BackEnd]:
    """Returns what the group depends on."""
    return (_procfs(), await _rtnetlink())


def _interface(link: Link) -> dict[str, Any]:
    addresses = [address.cidr for address in link.addresses[:_SHOWN_ADDRESSES]]
    return {"name": link.name, "state": link.state, "mac": link.mac, "mtu": link.mtu, "addresses": addresses}


def _procfs() -> BackEnd:
    try:
        loaded("psutil", "/proc is read with psutil")
    except HostError as error:
        return BackEnd(name="procfs", present=False, detail=str(error), remedy=remedy_of(error))
    return BackEnd(name="procfs", present=True, detail="/proc, read with psutil")


async def _rtnetlink() -> BackEnd:
    try:
        async with exchange() as kernel:
            count = len(await links(kernel))
    except HostError as error:
        return BackEnd(name="rtnetlink", present=False, detail=str(error), remedy=remedy_of(error))
    return BackEnd(name="rtnetlink", present=True, detail=f"{count} links")
