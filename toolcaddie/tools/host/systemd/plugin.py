"""The state plugin `systemd`: the units that may be changed, whether each is active, and whether it starts at boot.

[source.plugin.systemd]
units = ["nginx.service", "app-*.service"]
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.numbers import Seconds
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.systemd.group import back_end
from toolcaddie.tools.host.systemd.manager import Manager
from toolcaddie.tools.host.systemd.names import fits, is_template, machine_question, unit_name
from toolcaddie.tools.host.systemd.settings import Access, SystemdSettings

_TYPES = (".service", ".socket", ".timer", ".target", ".path", ".mount", ".automount", ".swap")
"""Types of units that people start and stop. The others come and go with devices and sessions."""
_ABSENT = ("transient", "alias", "bad")
"""States of unit files whose units are no part of the state: they end with their unit, are another name, or cannot be read."""
_BOOT = {"enabled": True, "disabled": False}
"""The attribute `enabled` for states of unit files; in another state a unit can be neither enabled nor disabled."""

_VERBS = ("enable", "disable", "stop", "start")
_ATTRIBUTES: JsonObject = {
    "type": "object",
    "properties": {
        "active": {"type": "boolean"},
        "enabled": {"type": "boolean"},
        "unit_file": {"type": "string", "description": "Of a unit that cannot be enabled; cannot be changed"},
    },
    "additionalProperties": False,
}


def systemd(
    *, units: tuple[str, ...] = (), bus: str = "", timeout: Seconds = 25.0, job_timeout: Seconds = 100.0
) -> SystemdState:
    """Returns the plugin. `units`: names or patterns of the units of the state. Raises `ConfigError`."""
    settings = SystemdSettings(units=units, bus=bus, timeout=timeout, job_timeout=job_timeout)
    access = Access(settings, place="source 'host': plugin.systemd")
    return SystemdState(Manager(bus, timeout=timeout, job_timeout=job_timeout), access)


class SystemdState:
    """Implements `ports.StatePlugin`."""

    name = "systemd"
    description = "Units of systemd: active now, enabled at boot."
    attributes = _ATTRIBUTES
    may_lock_out = False

    def __init__(self, manager: Manager, access: Access) -> None:
        self._manager = manager
        self._access = access
        self._aliases: dict[str, tuple[str, ...]] = {}

    async def query(self) -> State:
        patterns = self._access.changeable
        if not patterns:
            return {}
        files = await self._manager.files(patterns)
        loaded = {each.unit: each for each in await self._manager.loaded(patterns)}
        names = {name for name, unit in loaded.items() if unit.load == "loaded"} | set(files) - set(loaded)
        state: dict[str, JsonObject] = {}
        for name in sorted(names):
            if not name.endswith(_TYPES) or is_template(name) or not fits(name, patterns):
                continue
            file = files[name] if name in files else await self._manager.file_state(name)
            if file not in _ABSENT:
                state[name] = _attributes(name in loaded and loaded[name].is_active, file)
        self._aliases.update(await self._manager.aliases(tuple(state)))
        return state

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        name = unit_name(target)
        if name != target:
            raise RequestError(f"{target}: write the full name, {name}")
        try:
            self._access.check_changing(name)
        except HostError as error:
            raise RequestError(str(error)) from error
        if current is None:
            raise RequestError(f"{name}: there is no such unit on this machine, and no tool makes one")
        if desired is None:
            raise RequestError(f"{name}: a unit is not deleted; set active and enabled to false")
        return {**current, **{key: _value(name, key, value, current) for key, value in desired.items()}}

    def effects(self, change: Change) -> tuple[str, ...]:
        names = (change.target, *self._aliases.get(change.target, ()))
        return tuple(f"systemd.{verb} {name}" for verb, _ in _steps(change) for name in names)

    def question(self, change: Change) -> str:
        names = (change.target, *self._aliases.get(change.target, ()))
        return next(filter(None, (machine_question(verb, *names) for verb, _ in _steps(change))), "")

    async def apply(self, changes: Sequence[Change]) -> None:
        """Enables and disables first, then stops, then starts."""
        steps = [step for change in changes for step in _steps(change)]
        names = {verb: [name for each, name in steps if each == verb] for verb in _VERBS}
        if names["enable"]:
            await self._manager.enable(names["enable"])
        if names["disable"]:
            await self._manager.disable(names["disable"])
        for name in names["stop"]:
            await self._manager.run("stop", name)
        for name in names["start"]:
            unit = await self._manager.run("start", name)
            if not unit.is_active:
                raise HostError(f"{name} was started and is not active afterwards: it is {unit.words}")

    async def back_ends(self) -> Sequence[BackEnd]:
        return [await back_end(self._manager)]

    async def close(self) -> None:
        await self._manager.close()


def _steps(change: Change) -> list[tuple[str, str]]:
    """Returns the verbs that make a change, each with the unit's name."""
    before, after = change.before or {}, change.after or {}
    pairs = {"active": ("stop", "start"), "enabled": ("disable", "enable")}
    return [
        (verbs[after[key]], change.target)
        for key, verbs in pairs.items()
        if key in after and before.get(key) != after[key]
    ]


def _attributes(is_active: bool, file: str) -> JsonObject:
    boot = {"enabled": _BOOT[file]} if file in _BOOT else {"unit_file": file}
    return {"active": is_active, **boot}


def _value(name: str, key: str, value: object, current: JsonObject) -> bool | str:
    """Returns the value of an attribute that a unit is to have. Raises `RequestError` if it cannot have it."""
    if key in ("active", "enabled") and key in current and isinstance(value, bool):
        return value
    if key == "unit_file" and value == current.get(key):
        return str(value)
    if key == "enabled" and isinstance(value, bool):
        raise RequestError(f"{name}: it can be neither enabled nor disabled: its unit file is {current['unit_file']}")
    raise RequestError(f"{name}: {key[:40]!r} cannot be set to {str(value)[:40]!r}; there are active and enabled")
