"""The tools of the group `systemd`, as methods, and the judgement of their calls."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.tools.host.systemd.manager import Manager, Verb
from toolcaddie.tools.host.systemd.names import UnitType, is_template, machine_question, unit_name
from toolcaddie.tools.host.systemd.settings import Access

UnitText = Annotated[str, Field(max_length=1_000, description="Such as nginx.service")]
State = Annotated[str, Field(pattern="^[a-z-]{1,30}$", description="Such as active, failed, running; all")]

_PREFIX, _SUFFIX = "systemd_", "_unit"


class SystemdTools:
    """Each method is a tool of its name."""

    def __init__(self, manager: Manager, access: Access) -> None:
        self._manager = manager
        self._access = access

    async def systemd_unit_status(self, unit: UnitText) -> dict[str, Any]:
        """Read the state of a systemd unit, such as a service: whether it is running, and why it failed."""
        name = unit_name(unit)
        self._access.check_reading(name)
        status = await self._manager.unit(name)
        self._access.check_reading(status.unit)
        return msgspec.to_builtins(status)  # type: ignore[no-any-return]

    async def systemd_list_units(
        self,
        unit_type: UnitType | Literal["all"] = "service",
        state: State = "all",
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        """List loaded systemd units."""
        patterns = ["*"] if unit_type == "all" else [f"*.{unit_type}"]
        loaded = await self._manager.loaded(patterns, [] if state == "all" else [state])
        units = sorted((each for each in loaded if self._access.is_readable(each.unit)), key=lambda each: each.unit)
        value: dict[str, Any] = {"units": msgspec.to_builtins(units[:limit]), "total": len(units)}
        if len(units) > limit:
            value["note"] = (
                f"{len(units) - limit} more are not shown; raise limit (to 500), or name a state or a unit_type"
            )
        return value

    async def systemd_start_unit(self, unit: UnitText) -> dict[str, Any]:
        """Start a systemd unit, and wait until it has started."""
        return await self._run("start", unit)

    async def systemd_stop_unit(self, unit: UnitText) -> dict[str, Any]:
        """Stop a systemd unit, and wait until it has stopped."""
        return await self._run("stop", unit)

    async def systemd_restart_unit(self, unit: UnitText) -> dict[str, Any]:
        """Restart a systemd unit, and wait until it has started."""
        return await self._run("restart", unit)

    async def systemd_enable_unit(self, unit: UnitText) -> dict[str, Any]:
        """Let a systemd unit start at boot; this does not start it now."""
        name = await self._changeable(unit)
        return await self._with_file_state(name, "enabled", await self._manager.enable([name]))

    async def systemd_disable_unit(self, unit: UnitText) -> dict[str, Any]:
        """Let a systemd unit no longer start at boot; this does not stop it now."""
        name = await self._changeable(unit)
        return await self._with_file_state(name, "disabled", await self._manager.disable([name]))

    async def systemd_reload_daemon(self) -> dict[str, Any]:
        """Make systemd read all unit files again, after they were changed."""
        self._access.check_changing_any()
        await self._manager.reload()
        return {"reloaded": True}

    async def assess(self, tool: str, arguments: dict[str, Any], context: RunContext) -> Assessment:
        """Returns the effect of a change. A unit that has aliases has the effect under all its names, so that a rule for any of
        them holds."""
        verb = tool.removeprefix(_PREFIX).removesuffix(_SUFFIX)
        try:
            if verb in ("unit_status", "list_units"):
                return NOTHING
            if verb == "reload_daemon":
                self._access.check_changing_any()
                return Assessment(effects=("systemd.daemon-reload *",))
            name = unit_name(arguments["unit"])
            self._access.check_changing(name)
        except RequestError:
            return NOTHING  # the call itself fails, and says why
        except HostError as error:
            return Assessment(refusal=str(error))
        return await self._judged(verb, name)

    async def _judged(self, verb: str, name: str) -> Assessment:
        names = [name]
        if not is_template(name):
            with suppress(HostError):  # the call itself fails, and says why
                unit = await self._manager.unit(name)
                names += (unit.unit, *unit.aliases)
        try:
            self._access.check_changing(*names[:2])
        except HostError as error:
            return Assessment(refusal=str(error))
        names = list(dict.fromkeys(names))
        effects = tuple(f"systemd.{verb} {each}" for each in names)
        return Assessment(effects=effects, question=machine_question(verb, *names))

    async def _run(self, verb: Verb, unit: str) -> dict[str, Any]:
        status = await self._manager.run(verb, await self._changeable(unit))
        return msgspec.to_builtins(status)  # type: ignore[no-any-return]

    async def _changeable(self, unit: str) -> str:
        """Returns the full name of a unit that may be changed. The unit behind an alias has to be on the list too."""
        name = unit_name(unit)
        self._access.check_changing(name)
        self._access.check_changing(await self._own_name(name))
        return name

    async def _own_name(self, name: str) -> str:
        return name if is_template(name) else (await self._manager.unit(name)).unit

    async def _with_file_state(self, name: str, wanted: str, changes: list[str]) -> dict[str, Any]:
        """Returns the outcome of enabling or disabling. Raises `HostError` if the unit is not in the state that was wanted."""
        state = await self._manager.file_state(name)
        if state != wanted:
            raise HostError(f"{name} is not {wanted}: the state of its unit file is {state or 'unknown'}")
        return {"unit": name, "unit_file": state, "changes": changes}
