"""Recognises the tools of clients whose results may contain what strangers wrote, by `gateway.untrusted_client_tools`.

A client runs its own tools, so nothing but their names says what they return. The results stand in the transcript that the client
sends with every request, so that any process sees which of them a conversation has read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import Tool
from toolcaddie.util.replacing import replace

_PATTERN = re.compile(r"[A-Za-z0-9_.:/*-]{1,128}")


class UntrustedNames:
    """The names of tools whose results are untrusted. In `patterns`, `*` stands for any characters, and case does not matter.
    Raises `ConfigError` for a pattern that no name fits."""

    def __init__(self, patterns: Sequence[str]) -> None:
        for pattern in patterns:
            if not _PATTERN.fullmatch(pattern):
                raise ConfigError(
                    f"gateway.untrusted_client_tools holds {pattern[:80]!r}; give names of tools, with a * for any characters"
                )
        alternatives = (".*".join(map(re.escape, pattern.split("*"))) for pattern in patterns)
        self._names = re.compile("|".join(alternatives), re.IGNORECASE) if patterns else None

    def marked(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Returns the tools, those with such names as untrusted."""
        names = self._names
        if names is None:
            return tools
        return tuple([replace(tool, untrusted=True) if names.fullmatch(tool.name) else tool for tool in tools])


NO_NAMES = UntrustedNames(())
