"""docs/cli.md is run: each session's commands in order, in one folder, against the output it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.doors.commandline import CommandLine

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _steps() -> Iterator[tuple[str, str]]:
    """A command, and what the page says it prints."""
    for session in SESSION.findall(PAGE.read_text()):
        for step in session.split("$ ")[1:]:
            command, _, shown = step.partition("\n")
            yield command, shown


def _fits(shown: str, said: str) -> bool:
    """`...` stands for anything; runs of blanks count as one, because columns grow with what is in them."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    return re.fullmatch(r"\s*" + r".*?".join(parts) + r"\s*", " ".join(said.split()), re.DOTALL) is not None


def test_the_sessions_of_the_page_print_what_it_shows(toolcaddie: CommandLine) -> None:
    for command, shown in _steps():
        program, *words = shlex.split(command)
        assert program == "toolcaddie"
        done = toolcaddie(*words)
        assert (
            _fits(shown, done.stdout + done.stderr)
            or _fits(shown, done.stderr + done.stdout)
            or _fits(shown, done.output)
        ), f"$ {command}\n{done.output}"
