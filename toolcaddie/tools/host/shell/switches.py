"""Reads what `ovs-vsctl` and `ovs-ofctl` do to virtual switches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.host.ovs import parsed_selection
from toolcaddie.tools.host.shell.arguments import READS, CommandEffects, operands

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_VSCTL_READS = (
    *("show", "list-br", "list-ports", "list-ifaces", "list", "find", "get", "br-exists", "port-to-br", "iface-to-br"),
    *("br-to-vlan", "br-to-parent", "get-controller", "get-fail-mode", "get-manager", "get-ssl", "get-aa-mapping"),
)
_VSCTL_FLAGS = ("--may-exist", "--if-exists", "--no-wait", "--oneline", "--dry-run", "--no-syslog")
_OFCTL_READS = ("show", "dump-flows", "dump-ports", "dump-ports-desc", "dump-tables", "dump-groups", "dump-aggregate")


def ovs_vsctl(arguments: Sequence[str]) -> CommandEffects | None:
    """Returns the effects; None: they cannot be read."""
    effects: list[str] = []
    question = ""
    for part in _split(arguments):
        read = operands(part, flags=_VSCTL_FLAGS, values=("-t", "--timeout", "-f", "--format", "--columns"))
        match read and list(read[0]):
            case None:
                return None
            case []:
                continue
            case [verb, *_] if verb in _VSCTL_READS:
                continue
            case ["add-br", bridge] if _NAME.fullmatch(bridge):
                effects.append(f"ovs.add-bridge {bridge}")
            case ["del-br", bridge] if _NAME.fullmatch(bridge):
                effects += (f"ovs.{kind} {bridge}" for kind in ("del-bridge", "del-flows", "del-flow"))
                question = question or f"removes {bridge} with all its ports and flows"
            case ["add-port" | "del-port" as verb, bridge, port] if _NAME.fullmatch(bridge) and _NAME.fullmatch(port):
                effects.append(f"ovs.{verb} {bridge}/{port}")
            case _:
                return None
    return CommandEffects(effects=tuple(effects), question=question)


def _split(arguments: Sequence[str]) -> Iterable[Sequence[str]]:
    part: list[str] = []
    for each in arguments:
        if each == "--":
            yield part
            part = []
        else:
            part.append(each)
    yield part


def ovs_ofctl(arguments: Sequence[str]) -> CommandEffects | None:
    """Returns the effects; None: they cannot be read."""
    read = operands(
        arguments, flags=("--strict", "--names", "--no-names", "--stats", "--no-stats"), values=("-O", "--protocols")
    )
    match read and list(read[0]):
        case [verb, bridge, *_] if verb in _OFCTL_READS and _NAME.fullmatch(bridge):
            return READS
        case ["add-flow", bridge, flow] if _NAME.fullmatch(bridge) and flow != "-":
            return CommandEffects(effects=(f"ovs.add-flow {bridge}",))
        case ["del-flows", bridge, *match] if _NAME.fullmatch(bridge) and len(match) < 2:
            return _removal(bridge, "".join(match))
    return None


def _removal(bridge: str, match: str) -> CommandEffects | None:
    try:
        is_wide = parsed_selection(match).is_wide
    except RequestError:
        return None
    if not is_wide:
        return CommandEffects(effects=(f"ovs.del-flow {bridge}",))
    effects = (f"ovs.del-flows {bridge}", f"ovs.del-flow {bridge}")
    return CommandEffects(effects=effects, question=f"removes all flows of {bridge}")
