"""Reads what `systemctl` does to units."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from toolcaddie.tools.commands.programs import known_programs
from toolcaddie.tools.host.shell.arguments import READS, CommandEffects, operands
from toolcaddie.tools.host.systemd import machine_question

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
_SUFFIX = re.compile(r".+\.(service|socket|target|device|mount|automount|swap|timer|path|slice|scope)")
_UNIT_VERBS: Mapping[str, tuple[str, ...]] = {
    **{verb: (verb,) for verb in ("start", "stop", "restart", "reload", "enable", "disable")},
    "try-restart": ("restart",),
    "condrestart": ("restart",),
    "reload-or-restart": ("reload", "restart"),
    "try-reload-or-restart": ("reload", "restart"),
    "reenable": ("disable", "enable"),
}
_NOW = {"enable": "start", "disable": "stop"}
_FLAGS = (
    *("-q", "--quiet", "--no-pager", "--no-block", "--no-ask-password", "--no-legend", "--plain", "-l", "--full"),
    *("--system", "--wait", "--no-wall", "-a", "--all", "--failed", "--now", "--runtime", "-v", "--verbose"),
)
_VALUES = ("-n", "--lines", "-o", "--output", "-t", "--type", "--state", "-p", "--property", "--job-mode")


def systemctl(arguments: Sequence[str]) -> CommandEffects | None:
    """Returns the effects; None: they cannot be read."""
    read = operands(arguments, flags=_FLAGS, values=_VALUES)
    if read is None:
        return None
    given, flags = read
    verb, names = (given[0], given[1:]) if given else ("", ())
    if verb in ("", *known_programs().verbs["systemctl"]):
        return READS
    if verb == "daemon-reload" and not names:
        return CommandEffects(effects=("systemd.daemon-reload *",))
    if verb not in _UNIT_VERBS or not names or not all(map(_UNIT.fullmatch, names)):
        return None
    kinds = [*_UNIT_VERBS[verb], *([_NOW[verb]] if "--now" in flags and verb in _NOW else [])]
    units = [name if _SUFFIX.fullmatch(name) else f"{name}.service" for name in names]
    return CommandEffects(
        effects=tuple(f"systemd.{kind} {unit}" for unit in units for kind in kinds),
        question=next((reason for unit in units for kind in kinds if (reason := machine_question(kind, unit))), ""),
    )
