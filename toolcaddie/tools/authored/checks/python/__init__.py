"""Findings in Python source: what a person should look at before approving a tool.

The checks do not contain anything: Python has more ways than a list can name, and the sandbox holds whatever gets past them. They
know classes of code (modules, special attributes, code made at run time, text that names either, cost, hidden characters), and
each class is one function.
"""

from __future__ import annotations

from toolcaddie.tools.authored.checks.python.findings import findings
from toolcaddie.tools.authored.checks.python.parameters import parameters

__all__ = ["findings", "parameters"]
