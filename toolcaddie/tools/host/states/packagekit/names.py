"""Names of packages, and the patterns of names that an operator allows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from toolcaddie.core.errors import ConfigError

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,100}")
"""Names that the policy of Debian allows."""
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+~:_^-]{0,100}")
_PATTERN = re.compile(r"[a-z0-9][a-z0-9+.*?-]{1,100}")
_WILDCARDS = re.compile(r"[*?]+")
_LITERAL = 2
"""The smallest number of characters with which a pattern begins, so that none allows nearly everything."""

PROTECTED = frozenset(
    {
        *(
            "apt",
            "base-files",
            "bash",
            "coreutils",
            "dash",
            "dbus",
            "dpkg",
            "glibc",
            "init",
            "kernel",
            "libc6",
            "login",
        ),
        *("packagekit", "passwd", "rpm", "sudo", "systemd", "util-linux"),
    }
)
"""Packages that are never removed, whatever the settings allow: without them, nothing could be installed again."""


def package_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """Returns the patterns of the settings. Raises `ConfigError`."""
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern) or len(prefix(pattern)) < _LITERAL:
            raise ConfigError(
                f"source 'host': plugin.packagekit.packages: {pattern[:80]!r} is no name of a package and no pattern that "
                "begins with two characters of a name; write nginx or python3-*"
            )
    return tuple(patterns)


def prefix(pattern: str) -> str:
    """Returns the beginning of a pattern up to its first wildcard."""
    return _WILDCARDS.split(pattern, maxsplit=1)[0]


def is_pattern(name: str) -> bool:
    """Returns True unless the pattern fits one name only."""
    return bool(_WILDCARDS.search(name))


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Returns True if the name is one of a package and one of the patterns fits it."""
    return bool(PACKAGE.fullmatch(name)) and any(fnmatchcase(name, pattern) for pattern in patterns)
