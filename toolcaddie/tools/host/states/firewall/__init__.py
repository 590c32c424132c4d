"""The state plugin `firewall`: filter rules in the table `inet toolcaddie` of nftables."""

from __future__ import annotations

from toolcaddie.tools.host.states.firewall.plugin import FirewallPlugin, firewall

__all__ = ["FirewallPlugin", "firewall"]
