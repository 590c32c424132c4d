"""D-Bus message buses, for parts of the host that are reached over one."""

from __future__ import annotations

from toolcaddie.tools.host.dbus.bus import DBus
from toolcaddie.tools.host.dbus.messages import DBusRefusedError, Method, Reply, Signal, checked_address

__all__ = ["DBus", "DBusRefusedError", "Method", "Reply", "Signal", "checked_address"]
