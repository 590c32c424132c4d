"""Names of systemd's units, as a model or an operator writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

from toolcaddie.core.errors import ConfigError, RequestError

UnitType = Literal[
    "service", "socket", "timer", "target", "path", "mount", "automount", "swap", "device", "slice", "scope"
]
UNIT_TYPES: tuple[UnitType, ...] = get_args(UnitType)

_SUFFIX = rf"\.(?:{'|'.join(UNIT_TYPES)})"
_NAME = re.compile(rf"(?:(?!-)[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]*)?|-(?=\.(?:mount|slice)\Z)){_SUFFIX}")
"""The root of a file system and of all slices, `-.mount` and `-.slice`, are the only units whose names begin with a dash."""
_HAS_SUFFIX = re.compile(rf".*{_SUFFIX}\Z", re.DOTALL)
_PATTERN = re.compile(r"[A-Za-z0-9:_.\\@*?\[\]!-]{1,255}")
_GLOB = frozenset("*?[")
_LONGEST = 255
_WHOLE_MACHINE = frozenset(
    f"{name}.target"
    for name in (
        *("poweroff", "reboot", "halt", "kexec", "soft-reboot", "exit", "shutdown", "final", "umount", "ctrl-alt-del"),
        *("suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate", "sleep", "rescue", "emergency"),
        *("runlevel0", "runlevel1", "runlevel6"),
    )
)
"""Units whose start stops, restarts or suspends the whole machine, or leaves it in a rescue shell."""


def unit_name(text: str) -> str:
    """Returns the full name of a unit: `nginx` is `nginx.service`. Raises `RequestError` if no unit can have that name."""
    name = _with_suffix(text)
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise RequestError(
            f"unit: {text[:80]!r} is no name of a unit; it has letters, digits and : - _ . \\ @ only, at most {_LONGEST} "
            f"characters, and ends with its type, such as nginx.service",
            param="unit",
        )
    return name


def is_template(name: str) -> bool:
    """Returns True for a unit of which only instances can run: `getty@.service`."""
    return "@." in name


def machine_question(verb: str, *names: str) -> str:
    """Returns the reason why a person is always asked about a change of a unit with these names; empty: there is none."""
    stops = verb in ("start", "restart") and not _WHOLE_MACHINE.isdisjoint(names)
    return f"{verb} of {names[0]} stops or restarts the whole machine" if stops else ""


def unit_patterns(patterns: Iterable[str], *, setting: str) -> tuple[str, ...]:
    """Returns the patterns of a setting; one without wildcards and type means a service. Raises `ConfigError`."""
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise ConfigError(
                f"{setting}: {pattern[:80]!r} is no name of a unit and no pattern of such names; write nginx.service or app-*"
            )
    return tuple(pattern if _GLOB.intersection(pattern) else _with_suffix(pattern) for pattern in patterns)


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Returns True if one of the patterns fits the whole name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _with_suffix(text: str) -> str:
    return text if _HAS_SUFFIX.fullmatch(text) else f"{text}.service"
