"""Tools of a host: one assistant that runs a Linux machine."""

from __future__ import annotations

from toolcaddie.tools.host.source import HostSource, host

__all__ = ["HostSource", "host"]
