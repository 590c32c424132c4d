"""The group `systemd` and the state plugin of the same name."""

from __future__ import annotations

from toolcaddie.tools.host.systemd.group import systemd
from toolcaddie.tools.host.systemd.names import machine_question
from toolcaddie.tools.host.systemd.settings import SystemdSettings, plugin_settings

__all__ = ["SystemdSettings", "machine_question", "plugin_settings", "systemd"]
