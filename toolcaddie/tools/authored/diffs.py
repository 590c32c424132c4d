"""The difference between two states of a tool, for the person who decides."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from toolcaddie.tools.authored.values import Definition


def diff_of(before: Definition, now: Definition, number: int) -> str:
    """Returns the unified diff of two states: their names, descriptions, schemas and scopes, then their sources. `number` is the
    version of the earlier one."""
    lines = difflib.unified_diff(_lines(before), _lines(now), f"version {number}", "now", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _lines(definition: Definition) -> Sequence[str]:
    schema = msgspec.json.format(msgspec.json.encode(definition.parameters)).decode()
    return [
        f"name: {definition.name}",
        f"type: {definition.type}",
        f"scope: {definition.scope}",
        *(f"description: {line}" for line in definition.description.split("\n")),
        *(f"parameters: {line}" for line in schema.split("\n")),
        *definition.source.split("\n"),
    ]
