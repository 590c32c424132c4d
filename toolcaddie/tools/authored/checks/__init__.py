"""Checks of tools that bots write, for the person who reads them: one file for each type of tool.

A finding of severity `refused` is never accepted; one of severity `warning` is shown. None of them is the wall: the sandbox is.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.tools.authored.checks import command, python, typescript, wording
from toolcaddie.tools.authored.values import Definition, Finding


def findings_of(definition: Definition) -> Sequence[Finding]:
    """Returns what a reader of this tool should look at."""
    return [*wording.findings(definition), *_of_source(definition)]


def _of_source(definition: Definition) -> Sequence[Finding]:
    match definition.type:
        case "python":
            fitting = python.parameters(definition.source, definition.parameters)
            return [*python.findings(definition.source), *fitting]
        case "typescript":
            return typescript.findings(definition.source)
        case "command":
            return command.findings(definition.source, definition.parameters)


__all__ = ["findings_of"]
