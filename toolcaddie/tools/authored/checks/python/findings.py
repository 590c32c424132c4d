"""Runs every check over one source, and sorts what they say by line."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Sequence

from toolcaddie.tools.authored.checks.python.attributes import attributes
from toolcaddie.tools.authored.checks.python.building import building
from toolcaddie.tools.authored.checks.python.characters import characters
from toolcaddie.tools.authored.checks.python.costs import costs
from toolcaddie.tools.authored.checks.python.loading import loading
from toolcaddie.tools.authored.checks.python.members import members
from toolcaddie.tools.authored.checks.python.modules import modules
from toolcaddie.tools.authored.checks.python.names import names
from toolcaddie.tools.authored.checks.python.texts import texts
from toolcaddie.tools.authored.values import Finding

_CHECKS: Sequence[Callable[[ast.Module], Iterable[Finding]]] = (
    modules,
    names,
    attributes,
    members,
    building,
    texts,
    costs,
    loading,
)
_MOST = 100
"""The largest number of findings of one source."""


def findings(source: str) -> Sequence[Finding]:
    """Returns what a reader should look at, by line; each sentence once a line."""
    hidden = list(characters(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the parser warns of is no finding
            tree = ast.parse(source, filename="tool.py")
        visible = [finding for check in _CHECKS for finding in check(tree)]
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 0
        visible = [Finding(severity="refused", line=line, text=f"This is not Python: {_reason(error)}.")]
    except (RecursionError, MemoryError):
        visible = [Finding(severity="refused", line=0, text="This is nested too deeply to be read.")]
    return sorted(dict.fromkeys([*hidden, *visible]), key=lambda finding: finding.line)[:_MOST]


def _reason(error: SyntaxError | ValueError) -> str:
    return str(error.msg if isinstance(error, SyntaxError) else error)
