"""Filter rules of the kernel (nftables), by the program `nft` and its JSON."""

from __future__ import annotations

from toolcaddie.tools.host.states.nftables.command import Nft
from toolcaddie.tools.host.states.nftables.rules import ATTRIBUTES, PacketRule, normal, rule_of, statements
from toolcaddie.tools.host.states.nftables.values import network_text, port_value

__all__ = ["ATTRIBUTES", "Nft", "PacketRule", "network_text", "normal", "port_value", "rule_of", "statements"]
