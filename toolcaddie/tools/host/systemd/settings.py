"""Settings of the group `systemd`: the table `systemd` of the source `host`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from toolcaddie.core.errors import HostError
from toolcaddie.core.numbers import Seconds
from toolcaddie.tools.host.dbus import checked_address
from toolcaddie.tools.host.systemd.names import fits, unit_patterns

ALL_UNITS = ("*",)


class SystemdSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`units = ["nginx.service", "app-*.service"]`: these may be started, stopped, restarted, enabled and disabled."""

    units: tuple[str, ...] = ()
    """Names or patterns of the units that may be changed. Empty: none."""
    readable: tuple[str, ...] = ALL_UNITS
    """Names or patterns of the units that may be read."""
    bus: str = ""
    """Address of the message bus. Empty: the system bus."""
    timeout: Seconds = 25.0
    """Seconds in which systemd must answer."""
    job_timeout: Seconds = 100.0
    """Seconds in which a unit must have started or stopped. systemd itself gives most units 90."""


def plugin_settings(settings: SystemdSettings) -> dict[str, Any]:
    """Returns the settings of the group that the state plugin has too."""
    return {name: getattr(settings, name) for name in ("units", "bus", "timeout", "job_timeout")}


class Access:
    """The units that may be changed and read. Raises `ConfigError` for a bad pattern or address."""

    def __init__(self, settings: SystemdSettings, *, place: str = "source 'host': systemd") -> None:
        checked_address(settings.bus)
        self.place = place
        self.changeable = unit_patterns(settings.units, setting=f"{place}.units")
        self.readable = unit_patterns(settings.readable, setting=f"{place}.readable")

    def is_readable(self, name: str) -> bool:
        return fits(name, self.readable)

    def check_reading(self, *names: str) -> None:
        """Raises `HostError` unless all names of a unit may be read."""
        self._check(names, self.readable, "readable", "read")

    def check_changing(self, *names: str) -> None:
        """Raises `HostError` unless all names of a unit may be changed."""
        self.check_changing_any()
        self._check(names, self.changeable, "units", "changed")

    def check_changing_any(self) -> None:
        """Raises `HostError` if no unit may be changed."""
        if not self.changeable:
            raise HostError(
                f"no unit of this machine may be changed; the operator allows units with {self.place}.units, such as "
                '["nginx.service"]'
            )

    def _check(self, names: Sequence[str], patterns: Sequence[str], setting: str, verb: str) -> None:
        for name in names:
            if not fits(name, patterns):
                raise HostError(f"{name} may not be {verb}: {self.place}.{setting} does not name it")
