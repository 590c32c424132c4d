"""The state plugin `network`: links, their addresses and routes, over rtnetlink."""

from __future__ import annotations

from toolcaddie.tools.host.states.network.plugin import NetworkPlugin, network

__all__ = ["NetworkPlugin", "network"]
