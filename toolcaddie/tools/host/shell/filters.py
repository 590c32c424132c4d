"""Reads what `nft` does to packet filters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcaddie.tools.host.shell.arguments import READS, CommandEffects, operands

_FLAGS = ("-a", "-n", "-j", "-s", "-t", "-e", "-nn", "--json", "--handle", "--numeric", "--stateless")
_FAMILIES = ("ip", "ip6", "inet", "arp", "bridge", "netdev")
_IDENTIFIER = r"[A-Za-z_][\w/.\\-]{0,63}"
_CHANGE = re.compile(
    r"(?:add|insert|replace|delete|destroy|create|flush|rename) (?:rule|chain) "
    rf"(?:(?:{'|'.join(_FAMILIES)}) )?{_IDENTIFIER} (?P<chain>{_IDENTIFIER})(?: [^;\n]*| \{{[^{{}}\n]*\}})?"
)


def nft(arguments: Sequence[str]) -> CommandEffects | None:
    """Returns the effects; None: they cannot be read."""
    read = operands(arguments, flags=_FLAGS)
    text = "" if read is None else " ".join(read[0])
    if re.fullmatch(r"list [^;\n]*", text):
        return READS
    change = _CHANGE.fullmatch(text)
    return change and CommandEffects(effects=(f"firewall.set {change['chain']}",))
