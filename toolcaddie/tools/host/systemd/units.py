"""Units of systemd as values."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from toolcaddie.tools.host.words import words

_ACTIVE = ("active", "reloading", "refreshing")
_KILLED = (2, 3)
"""Values of `ExecMainCode` of a process that a signal ended: CLD_KILLED and CLD_DUMPED."""


class Unit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a unit."""

    unit: str
    """Its own name; a unit may be asked for by an alias."""
    active: str
    sub: str
    load: str
    description: str = ""
    unit_file: str = ""
    """The state of its file: enabled, disabled, static, masked and others. Empty: it has none."""
    since: str = ""
    main_pid: int = 0
    result: str = ""
    """The reason of a service's last failure, such as `exit-code`; `success`: there was none."""
    ended_with: str = ""
    """The end of the service's last main process: `exit status 3`, `signal SIGKILL`."""
    unmet_condition: bool = False
    """True: a condition of its file did not hold at its last start, so it was not started."""
    aliases: tuple[str, ...] = ()
    """Its other names."""

    @property
    def is_active(self) -> bool:
        return self.active in _ACTIVE

    @property
    def words(self) -> str:
        """The state in a few words, for errors."""
        parts = [f"{self.active} ({self.sub})"]
        if self.result and self.result != "success":
            parts.append(f"result {self.result}")
        return ", ".join([*parts, self.ended_with] if self.ended_with else parts)


class Listed(Struct, frozen=True, kw_only=True):
    """A loaded unit, as systemd lists it."""

    unit: str
    load: str
    active: str
    sub: str
    description: str

    @property
    def is_active(self) -> bool:
        return self.active in _ACTIVE


def unit_of(properties: Mapping[str, Any], service: Mapping[str, Any]) -> Unit:
    """Returns a unit from its properties; `service`: those that only services have."""
    return Unit(
        unit=properties["Id"],
        active=properties["ActiveState"],
        sub=properties["SubState"],
        load=properties["LoadState"],
        description=words(properties["Description"], nothing=""),
        unit_file=properties["UnitFileState"],
        since=_time_of(properties["StateChangeTimestamp"]),
        main_pid=service.get("MainPID", 0),
        result=service.get("Result", ""),
        ended_with=_end_of(service),
        aliases=tuple(sorted(set(properties["Names"]).difference((properties["Id"],)))),
        unmet_condition=bool(properties["ConditionTimestamp"]) and not properties["ConditionResult"],
    )


def _time_of(microseconds: int) -> str:
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _end_of(service: Mapping[str, Any]) -> str:
    code, status = service.get("ExecMainCode", 0), service.get("ExecMainStatus", 0)
    if code in _KILLED:
        with suppress(ValueError):
            return f"signal {signal.Signals(status).name}"
        return f"signal {status}"
    return f"exit status {status}" if code else ""
