"""The group `system`: reads what the kernel says about this machine."""

from __future__ import annotations

from toolcaddie.tools.host.system.group import system

__all__ = ["system"]
