"""Reads the answer of `apt-cache policy`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolcaddie.tools.host.states.packagekit.names import PACKAGE, VERSION

_VERSION = re.compile(r"(?: \*\*\*|    ) (\S+) -?\d+")
_SOURCE = re.compile(r" {8} *-?\d+ (.+)")
_STATUS = "/var/lib/dpkg/status"


def candidates(text: str) -> Mapping[str, str]:
    """Returns the version of each package that would be downloaded; none for a package that cannot be downloaded."""
    result: dict[str, str] = {}
    name = candidate = version = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            name, candidate, version = line.removesuffix(":"), "", ""
        elif line.startswith("  Candidate: "):
            candidate = line.removeprefix("  Candidate: ")
        elif match := _VERSION.fullmatch(line):
            version = match[1]
        elif (
            (match := _SOURCE.fullmatch(line))
            and version == candidate
            and not match[1].endswith(_STATUS)
            and PACKAGE.fullmatch(name)
            and VERSION.fullmatch(version)
        ):
            result[name] = version
    return result
