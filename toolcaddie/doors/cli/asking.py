"""Asks the person at the terminal about the calls that a paused run waits for: all questions of a run in one view."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from toolcaddie.core.approval import Approval
from toolcaddie.doors.arguments import argument_texts
from toolcaddie.doors.cli.echo import echo
from toolcaddie.doors.cli.output import note
from toolcaddie.util.replacing import replace

_VALUE_SHOWN = 500
_LINES_SHOWN = 60
_DIFF = re.compile(r"^--- .*\n\+\+\+ .*\n@@ ", re.MULTILINE)
"""Matches the beginning of a unified diff."""
_STYLES: Mapping[str, Mapping[str, Any]] = {"+": {"fg": "green"}, "-": {"fg": "red"}, "@": {"fg": "cyan"}}
_KEYS = "[y]es  [n]o  [a]lways for these arguments  [w]hy"
_ANSWERS = {word[:end]: word[0] for word in ("yes", "no", "always", "why") for end in (1, len(word))}
"""The answers that a person may type, each with the key that it stands for."""


class Questions:
    """Asks, and remembers for which exact arguments the person said always. One object serves a whole session."""

    def __init__(self) -> None:
        self._always: set[str] = set()

    def answers(self, approvals: Sequence[Approval], run_id: str) -> Mapping[str, bool]:
        """Returns the answer to each question of a run, by the question's id. Ctrl-C raises `click.Abort`; then nothing is
        answered."""
        new = [approval for approval in approvals if approval.digest not in self._always]
        for approval in new:
            _show(approval, run_id)
        answered = {approval.id: self._answer(approval, several=len(new) > 1) for approval in new}
        return {approval.id: answered.get(approval.id, True) for approval in approvals}

    def _answer(self, approval: Approval, *, several: bool) -> bool:
        while True:
            match _read(f"run {approval.tool}?" if several else "run it?"):
                case "y":
                    return True
                case "n":
                    return False
                case "a":
                    self._always.add(approval.digest)
                    return True
                case "w":
                    _explain(approval)


def _read(question: str) -> str:
    choices: Any = click.Choice(list(_ANSWERS), case_sensitive=False)
    answer = click.prompt(f"{question}  {_KEYS}", type=choices, show_choices=False, err=True, prompt_suffix=" > ")
    return _ANSWERS[answer]


def _show(approval: Approval, run_id: str) -> None:
    """Prints a question: the tool, its arguments and the reason."""
    echo(f"{approval.tool} needs your approval: {approval.reason or approval.rule}", err=True, bold=True)
    for name, text in argument_texts(_without_repetition(approval)):
        short = text if len(text) <= _VALUE_SHOWN else f"{text[:_VALUE_SHOWN]}… (w shows all)"
        echo(f"    {name}: {short}", err=True)
    _print_preview(approval.preview, _preview_lines(approval.preview))
    if approval.taint:
        note(f"    read before: {', '.join(approval.taint)} (content of strangers)")
    if approval.run_id != run_id:
        note(
            f"    {approval.run_id} waits for the same answer: a no counts for both runs, a yes for the first to use it"
        )


def _without_repetition(approval: Approval) -> Approval:
    """Returns the approval without the arguments of one line with which its preview ends, such as the command of `exec`."""
    arguments = {
        name: value
        for name, value in approval.arguments.items()
        if not (isinstance(value, str) and _ends_with_line(approval.preview, value))
    }
    return replace(approval, arguments=arguments)


def _ends_with_line(preview: str, text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable() and preview.endswith(f"\n\n{text}")


def _print_preview(preview: str, lines: Sequence[str]) -> None:
    """Prints lines of a preview: those of a unified diff in colours, others as they are."""
    styles = _STYLES if _DIFF.search(preview) else {}
    for line in lines:
        echo(f"    {line}", err=True, **styles.get(line[:1], {}))


def _preview_lines(preview: str) -> list[str]:
    """Returns the lines of what a call would do; of a long preview, the first and the last ones."""
    lines = preview.splitlines()
    if len(lines) <= _LINES_SHOWN:
        return lines
    half = _LINES_SHOWN // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines more (w shows all)", *lines[-half:]]


def _explain(approval: Approval) -> None:
    """Prints the rule that asks, the question's id, and in full the arguments that were shortened above."""
    for name, text in argument_texts(approval):
        if len(text) > _VALUE_SHOWN:
            note(f"    {name}: {text}")
    if len(lines := approval.preview.splitlines()) > _LINES_SHOWN:
        _print_preview(approval.preview, lines)
    note(f"    asked by the rule {approval.rule!r}, policy {approval.policy_version}")
    note(f"    {approval.id} of run {approval.run_id}")
