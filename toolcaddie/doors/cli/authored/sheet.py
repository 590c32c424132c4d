"""A tool as text for its reviewer: who asked for it, its source with what the checks say, and what has changed."""

from __future__ import annotations

from collections.abc import Iterator

from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.texts import local_time
from toolcaddie.doors.tool_sheets import (
    ParameterRow,
    asker_text,
    diff_lines,
    general_findings,
    parameter_rows,
    source_lines,
)
from toolcaddie.tools.authored.values import AuthoredTool, Finding, Review
from toolcaddie.util.text import visible_code

_NO_FINDINGS = "the checks found nothing; they do not prove that it is harmless"
_COLOURS = {"added": "green", "removed": "red", "place": "cyan"}


def print_review(review: Review, *, err: bool = False) -> None:
    """Prints everything that a person needs to decide. `err`: to stderr."""
    tool = review.tool
    for name, value in _facts(review):
        if value:
            echo(f"{name:<12} {visible_code(value)}", err=err)
    if not review.findings:
        echo(_NO_FINDINGS, err=err)
    for finding in general_findings(review):
        _print_finding(finding, "", err=err)
    for row in parameter_rows(tool.definition.parameters):
        echo(f"  {visible_code(_parameter(row))}", err=err)
    echo("\nsource", err=err, bold=True)
    for line in source_lines(review):
        echo(f"{line.number:>5} | {visible_code(line.text)}", err=err)
        for finding in line.findings:
            _print_finding(finding, "      ! ", err=err)
    if review.diff:
        echo("\nchanges since the last approval", err=err, bold=True)
        print_diff(review.diff, err=err)


def print_diff(diff: str, *, err: bool = False) -> None:
    """Prints a unified diff in colours."""
    for line in diff_lines(diff):
        echo(visible_code(line.text), err=err, fg=_COLOURS.get(line.kind))


def _facts(review: Review) -> Iterator[tuple[str, str]]:
    tool = review.tool
    definition, author = tool.definition, tool.author
    yield "tool", f"{definition.name} ({tool.id})"
    yield "state", tool.status
    yield "decided", _decision(tool)
    yield "type", definition.type
    yield "for bots", definition.scope
    yield "asked by", asker_text(tool)
    yield "run", "" if author is None else author.run_id
    yield "read before", "" if author is None else ", ".join(author.taint)
    yield "written", local_time(tool.created)
    yield "approved", ", ".join(f"version {each.number} ({local_time(each.at)})" for each in tool.versions)
    yield "digest", tool.digest
    yield "cannot run", review.missing
    yield "description", definition.description
    yield "parameters", "" if parameter_rows(definition.parameters) else "none"


def _decision(tool: AuthoredTool) -> str:
    if tool.changed == tool.created and not tool.note:
        return ""
    by = f" by {tool.decided_by.id}" if tool.decided_by else ""
    return f"{local_time(tool.changed)}{by}{f': {tool.note}' if tool.note else ''}"


def _parameter(row: ParameterRow) -> str:
    required = ", required" if row.is_required else ""
    return f"{row.name}  {row.type}{required}  {row.description} {row.more}".rstrip()


def _print_finding(finding: Finding, indent: str, *, err: bool) -> None:
    refused = finding.severity == "refused"
    word = "never accepted" if refused else "warning"
    echo(f"{indent}{word}: {visible_code(finding.text)}", err=err, fg="red" if refused else "yellow")
