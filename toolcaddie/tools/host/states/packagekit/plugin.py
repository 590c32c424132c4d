"""The plugin itself.

[source.plugin.packagekit]
packages = ["nginx", "python3-*"]   # names or patterns; no other package is read or changed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from toolcaddie.core.errors import ConfigError, HostError
from toolcaddie.core.numbers import Seconds
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.packagekit.apt import Apt
from toolcaddie.tools.host.states.packagekit.managers import PackageManager, Wanted
from toolcaddie.tools.host.states.packagekit.names import fits, package_patterns
from toolcaddie.tools.host.states.packagekit.packagekitd import PackageKit
from toolcaddie.tools.host.states.packagekit.planning import attributes, planned
from toolcaddie.util.replacing import replace

Manager = Literal["auto", "packagekit", "apt"]

_VERSION: dict[str, Any] = {"type": "string", "maxLength": 200}
_ATTRIBUTES: dict[str, Any] = {
    "installed": {"type": "boolean"},
    "version": {**_VERSION, "description": "Cannot be chosen"},
    "candidate": {**_VERSION, "description": "The version that would be downloaded; cannot be chosen"},
}


def packagekit(
    *,
    packages: tuple[str, ...] = (),
    manager: Manager = "auto",
    bus: str = "",
    root: str = "",
    timeout: Seconds = 30.0,
    change_timeout: Seconds = 100.0,
) -> PackagesPlugin:
    """Returns the plugin.

    `packages`: names or patterns of the packages that may be installed and removed; empty: none. `manager`: "auto" uses
    PackageKit if this machine has it, and otherwise apt. `bus`: address of the message bus of PackageKit; empty: the system bus.
    `root`: the folder of another system, for apt; empty: this machine. `timeout`: seconds for reading; `change_timeout`: seconds
    for a change. Raises `ConfigError`.
    """
    if root and manager != "apt":
        raise ConfigError(
            "source 'host': plugin.packagekit.root: only apt changes another system; set manager to \"apt\""
        )
    if bus and manager != "packagekit":  # a bus of another system must never lead to the apt of this one
        raise ConfigError("source 'host': plugin.packagekit.bus: apt has no bus; set manager to 'packagekit'")
    apt = Apt(root, timeout=timeout, change_timeout=change_timeout)
    daemon = PackageKit(bus, timeout=timeout, change_timeout=change_timeout)
    choice: dict[Manager, tuple[PackageManager, ...]] = {"auto": (daemon, apt), "packagekit": (daemon,), "apt": (apt,)}
    return PackagesPlugin(package_patterns(packages), choice[manager])


class PackagesPlugin:
    """Implements `ports.StatePlugin`. `managers`: the first one that this machine has is used."""

    name = "packagekit"
    description = "Packages that may be changed: installed, version."
    attributes: ClassVar[JsonObject] = {"type": "object", "properties": _ATTRIBUTES, "additionalProperties": False}
    may_lock_out = False

    def __init__(self, patterns: Sequence[str], managers: Sequence[PackageManager]) -> None:
        self._patterns = tuple(patterns)
        self._managers = tuple(managers)

    async def query(self) -> State:
        manager = await self._manager()
        packages = await manager.packages(self._patterns) if self._patterns else {}
        return {name: attributes(package) for name, package in packages.items()}

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(self._patterns, target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        after = change.after or {}
        return (f"packages.{'install' if after.get('installed') else 'remove'} {change.target}",)

    def question(self, change: Change) -> str:
        """Asks about each removal: a package that is not installed stays a thing of the state, so no removal is a deletion."""
        return "" if (change.after or {}).get("installed") else f"removes the package {change.target}"

    async def apply(self, changes: Sequence[Change]) -> None:
        install = {
            change.target: change.after["version"] for change in changes if change.after and change.after["installed"]
        }
        remove = {
            change.target: change.before["version"]
            for change in changes
            if change.before and change.target not in install
        }
        manager = await self._manager()
        await manager.change(Wanted(install=install, remove=remove, is_ours=lambda name: fits(name, self._patterns)))

    async def back_ends(self) -> Sequence[BackEnd]:
        """Returns the managers that are there; all if none is, because one is enough."""
        back_ends = [await manager.back_end() for manager in self._managers]
        if not (present := [back_end for back_end in back_ends if back_end.present]):
            return back_ends
        return [_with_use(back_end, is_used=at == 0) for at, back_end in enumerate(present)]

    async def close(self) -> None:
        for manager in self._managers:
            await manager.close()

    async def _manager(self) -> PackageManager:
        for manager in self._managers:
            if await manager.is_present():
                return manager
        reasons = "; ".join([(await manager.back_end()).detail for manager in self._managers])
        raise HostError(f"this machine has no package manager that can be used: {reasons}")


def _with_use(back_end: BackEnd, *, is_used: bool) -> BackEnd:
    use = "packages are read and changed with it" if is_used else "not used, because PackageKit is"
    return replace(back_end, detail=f"{back_end.detail}; {use}")
