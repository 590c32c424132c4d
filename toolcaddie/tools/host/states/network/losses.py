"""Finds what the kernel would drop together with a link or its addresses, and nobody could make again from the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.rtnetlink import Kernel, links
from toolcaddie.tools.host.states.network.planning import is_route
from toolcaddie.tools.host.states.network.reading import comes_back, in_state

_LOCAL_TABLE = 255
_BRIDGE = "bridge"


async def check_losses(kernel: Kernel, before: State, wanted: State, targets: Iterable[str]) -> None:
    """Raises `HostError` if a change of links would take something with it that it does not name, and that would be lost."""
    changed = {name: wanted.get(name) for name in sorted(targets) if name in before and not is_route(name)}
    for name, after in changed.items():
        _check_master(name, before, after, wanted)
    dropping = {name for name, after in changed.items() if _drops_routes(before[name], after)}
    if not dropping:
        return
    present = await links(kernel)
    names = {link.index: link.name for link in present}
    for link in present:
        lower = names.get(link.lower or 0, "")
        if lower in changed and lower not in wanted and link.name in wanted and link.kind != "veth":
            raise HostError(f"{link.name} depends on {lower}, and would be lost with it, so nothing was done")
    async for message in await kernel.get_routes():
        for index in _interfaces(message):
            if names.get(index) in dropping and _is_lost(message, names):
                raise HostError(
                    f"{names[index]} has a route to {message.get('dst') or 'everywhere'} (table {message.get('table')}) that is "
                    "no part of the state, and would be lost, so nothing was done"
                )


def _check_master(name: str, before: State, after: JsonObject | None, wanted: State) -> None:
    masters = (before[name]["master"], None if after is None else after["master"])
    if masters[0] == masters[1]:
        return
    for master in masters:
        kind = {**wanted, **before}.get(master or "", {}).get("kind", _BRIDGE)
        if kind != _BRIDGE:
            raise HostError(
                f"{name}: {master} is a {kind}; only membership of a bridge is changed, so nothing was done"
            )


def _drops_routes(before: JsonObject, after: JsonObject | None) -> bool:
    if after is None or (before["up"] and not after["up"]):
        return True
    return not set(before["addresses"]).issubset(after["addresses"])


def _interfaces(message: Any) -> Iterable[int]:
    return {each for each in (message.get("oif"), *(hop["oif"] for hop in message.get("multipath") or ())) if each}


def _is_lost(message: Any, names: Mapping[int, str]) -> bool:
    if message.get("table") == _LOCAL_TABLE or comes_back(message):
        return False
    shown = in_state(message, names)
    return shown is None or bool(shown[1]["other"])
