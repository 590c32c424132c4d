"""The parts of a tool as its reviewer reads them: lines of source with what the checks say about each, and rows of parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from toolcaddie.tools.authored.values import AuthoredTool, Finding, Review

_KINDS: Mapping[str, Literal["added", "removed", "place"]] = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a tool's source."""

    number: int
    """Counts from 1."""
    text: str
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterRow:
    """A parameter of a tool."""

    name: str
    type: str
    is_required: bool
    description: str
    more: str
    """Everything else that its schema says, as JSON; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a unified diff."""

    kind: Literal["added", "removed", "place", "same"]
    text: str


def source_lines(review: Review) -> Sequence[SourceLine]:
    """Returns the lines of the source with their findings. A finding beyond the last line stands there, so that none is
    lost."""
    lines = review.tool.definition.source.removesuffix("\n").split("\n")
    by_line: dict[int, list[Finding]] = {}
    for finding in review.findings:
        by_line.setdefault(min(finding.line, len(lines)), []).append(finding)
    return [
        SourceLine(number=number, text=text, findings=by_line.get(number, ()))
        for number, text in enumerate(lines, start=1)
    ]


def general_findings(review: Review) -> Sequence[Finding]:
    """Returns the findings about the whole tool."""
    return [finding for finding in review.findings if finding.line < 1]


def diff_lines(diff: str) -> Sequence[DiffLine]:
    """Returns the lines of a unified diff. The first two lines name the two states."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    return [
        DiffLine(kind="place" if at < 2 else _KINDS.get(line[:1], "same"), text=line) for at, line in enumerate(lines)
    ]


def parameter_rows(schema: Mapping[str, Any]) -> Sequence[ParameterRow]:
    """Returns the parameters that a JSON Schema of an object names."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ()
    return [
        _row(str(name), each if isinstance(each, Mapping) else {}, name in required if required else False)
        for name, each in properties.items()
    ]


def asker_text(tool: AuthoredTool) -> str:
    """Returns who asked for a tool, on one line."""
    if tool.author is None:
        return "nobody; its folder was put there"
    principal = tool.author.principal
    bot = "" if principal.bot is None else f", bot {principal.bot}"
    return f"{principal.id}{bot}" + (f" ({principal.channel})" if principal.channel else "")


def _row(name: str, schema: Mapping[str, Any], is_required: bool) -> ParameterRow:
    kind = schema.get("type", "any")
    rest = {key: value for key, value in schema.items() if key not in ("type", "description")}
    return ParameterRow(
        name=name,
        type=" or ".join(map(str, kind)) if isinstance(kind, list) else str(kind),
        is_required=is_required,
        description=str(schema.get("description", "")),
        more=msgspec.json.encode(rest).decode() if rest else "",
    )
