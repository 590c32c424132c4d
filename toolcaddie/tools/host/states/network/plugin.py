"""The plugin itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.extra import remedy_of
from toolcaddie.tools.host.rtnetlink import exchange
from toolcaddie.tools.host.states.network.making import make
from toolcaddie.tools.host.states.network.planning import is_route, planned
from toolcaddie.tools.host.states.network.reading import read

_TEXT: dict[str, Any] = {"type": "string", "maxLength": 60}
_LINK: dict[str, Any] = {"type": ["string", "null"], "maxLength": 15}
_ATTRIBUTES: dict[str, Any] = {
    "kind": _TEXT,
    "up": {"type": "boolean"},
    "mtu": {"type": "integer", "minimum": 68, "maximum": 65_536},
    "addresses": {"type": "array", "items": _TEXT, "maxItems": 64, "description": "All of them, as in 10.0.0.5/24"},
    "master": {**_LINK, "description": "Its bridge"},
    "peer": {**_LINK, "description": "Of a veth: the other end, which is a link too"},
    "parent": {**_LINK, "description": "Of a vlan"},
    "vlan": {"type": ["integer", "null"], "minimum": 1, "maximum": 4094},
    "via": {"type": ["string", "null"], "maxLength": 60, "description": "Of a route: its gateway"},
    "interface": {**_LINK, "description": "Of a route"},
    "source": {"type": ["string", "null"], "maxLength": 60, "description": "Of a route: the preferred own address"},
    "onlink": {"type": "boolean", "description": "Of a route: its gateway is reached without another route"},
    "other": {"type": "array", "items": _TEXT, "description": "Of a route: what else it has; cannot be changed"},
}
_CREATION = {"create": "add", "delete": "delete"}


class NetworkPlugin:
    """Implements `ports.StatePlugin`. Each exchange with the kernel has a socket of its own, so nothing is to be closed."""

    name = "network"
    description = (
        "Links by name: kind (bridge, veth, vlan and dummy can be created and deleted), up, mtu, addresses, master; "
        "and routes such as 'route 0.0.0.0/0': via, interface."
    )
    attributes: ClassVar[JsonObject] = {"type": "object", "properties": _ATTRIBUTES, "additionalProperties": False}
    may_lock_out = True

    async def query(self) -> State:
        async with exchange() as kernel:
            return await read(kernel)

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        if not is_route(change.target):
            return (f"network.{_CREATION.get(change.action, 'set')} {change.target}",)
        interfaces = {route["interface"] for route in (change.before, change.after) if route is not None}
        return tuple(f"network.set {interface}" for interface in sorted(interfaces))

    def question(self, change: Change) -> str:
        before, after = change.before or {}, change.after or {}
        if before.get("up") and not after.get("up", True):
            return f"takes {change.target} down"
        if is_route(change.target) and "/0" in change.target:
            return f"changes the default route, {change.target}"
        return ""

    async def apply(self, changes: Sequence[Change]) -> None:
        async with exchange() as kernel:
            await make(kernel, changes)

    async def back_ends(self) -> Sequence[BackEnd]:
        try:
            count = len(await self.query())
        except HostError as error:
            return (BackEnd(name="rtnetlink", present=False, detail=str(error), remedy=remedy_of(error)),)
        return (BackEnd(name="rtnetlink", present=True, detail=f"{count} links and routes"),)

    async def close(self) -> None:
        """Does nothing: no connection stays open."""


def network() -> NetworkPlugin:
    """Returns the plugin."""
    return NetworkPlugin()
