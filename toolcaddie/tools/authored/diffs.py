"""The difference between two states of a tool, for the person who decides."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolcaddie.tools.authored.values import Definition
from toolcaddie.util.hunks import hunks


def diff_of(before: Definition, now: Definition, number: int) -> str:
    """Returns the unified diff of two states: their names, descriptions, schemas and scopes, then their sources; empty: there is
    none. `number` is the version of the earlier one."""
    lines = list(hunks(_lines(before), _lines(now)))
    titles = [f"--- version {number}", "+++ now"] if lines else []
    return "".join(f"{line}\n" for line in [*titles, *lines])


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
