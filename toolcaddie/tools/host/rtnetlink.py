"""Reads the network links of this machine from the kernel, over rtnetlink."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.extra import loaded

Kernel: TypeAlias = Any
"""A `pyroute2.AsyncIPRoute`, a class without types."""

_SECONDS = 10.0
"""The longest time for a whole exchange with the kernel."""
_IFF_UP = 0x1
_ARPHRD_LOOPBACK = 772
_IFA_F_PERMANENT = 0x80
_LINK_SCOPE = 253
_INET6 = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of a link."""

    cidr: str
    own: bool
    """True: somebody set it for good. False: it appears and disappears by itself (link-local, or with a lifetime), or is one end
    of a line, whose other end is no attribute here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A network link as the kernel describes it."""

    index: int
    name: str
    kind: str
    """`bridge`, `veth`, ...; `loopback`; `device` for hardware."""
    up: bool
    """True: it is switched on, whether or not it has a carrier."""
    state: str
    """Its operational state: `up`, `down`, `unknown`, ..."""
    mtu: int
    mac: str
    master: int | None
    """Index of the bridge it belongs to."""
    lower: int | None
    """Index of the peer of a veth link, or of the link below, as of a VLAN; None: there is none in this network namespace."""
    vlan: int | None
    addresses: tuple[Address, ...]


@asynccontextmanager
async def exchange() -> AsyncIterator[Kernel]:
    """Opens a socket to the kernel for one exchange, so that concurrent calls never read each other's answers. Raises `HostError`
    for whatever goes wrong in the `with` block."""
    library = loaded("pyroute2", "the network needs pyroute2")  # here, because it takes long to load
    try:
        async with asyncio.timeout(_SECONDS), library.AsyncIPRoute() as kernel:
            yield kernel
    except TimeoutError as error:
        raise HostError(f"the kernel did not answer over rtnetlink within {_SECONDS:.0f} s") from error
    except (library.NetlinkError, OSError) as error:
        raise HostError(f"rtnetlink: {_reason(error)}") from error


async def asked(doing: str, request: Awaitable[Any]) -> None:
    """Waits for the kernel's answer to a request. Raises `HostError` if it refuses."""
    refusal: type[Exception] = import_module("pyroute2").NetlinkError
    try:
        await request
    except refusal as error:
        raise HostError(f"the kernel refuses to {doing}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    code = getattr(error, "code", None) or getattr(error, "errno", None)
    match code:
        case errno.EPERM | errno.EACCES:
            return "not permitted; changing the network needs root or CAP_NET_ADMIN"
        case int():
            return os.strerror(code)
        case _:
            return str(error) or type(error).__name__


async def links(kernel: Kernel) -> list[Link]:
    """Returns all links of this network namespace, with their addresses."""
    addresses: dict[int, list[Address]] = {}
    async for message in await kernel.get_addr():
        addresses.setdefault(message["index"], []).append(_address(message))
    return [_link(message, addresses.get(message["index"], [])) async for message in await kernel.get_links()]


def _address(message: Any) -> Address:
    flags = message.get("flags") or 0
    local = message.get("local") or message.get("address")
    transient = message["family"] == _INET6 and message["scope"] == _LINK_SCOPE
    is_plain = not transient and local == message.get("address", local)
    return Address(cidr=f"{local}/{message['prefixlen']}", own=bool(flags & _IFA_F_PERMANENT) and is_plain)


def _link(message: Any, addresses: list[Address]) -> Link:
    info = message.get("linkinfo")
    data = info.get("data") if info else None
    kind = info.get("kind") if info else None
    if kind is None:
        kind = "loopback" if message["ifi_type"] == _ARPHRD_LOOPBACK else "device"
    elsewhere = message.get("link_netnsid") is not None
    lower = message.get("link") or (data.get("vxlan_link") if kind == "vxlan" and data else None)
    return Link(
        index=message["index"],
        name=message.get("ifname") or "",
        kind=kind,
        up=bool(message["flags"] & _IFF_UP),
        state=(message.get("operstate") or "unknown").lower(),
        mtu=message.get("mtu") or 0,
        mac=message.get("address") or "",
        master=message.get("master"),
        lower=None if elsewhere else lower or None,
        vlan=data.get("vlan_id") if kind == "vlan" and data else None,
        addresses=tuple(addresses),
    )
