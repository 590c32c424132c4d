"""Sessions of the docs: what a page types is typed, and what it shows must appear."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from tests.doors.commandline import CommandLine
from tests.doors.terminal import Terminal

PROMPT = "you> "
_QUESTION = "[w]hy > "
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def played(person: Terminal, lines: Sequence[str]) -> None:
    """Types what the page types, and compares what is shown until the next prompt or question."""
    awaited: list[str] = []
    shown = ""
    for line in [*lines, PROMPT]:
        typed = line.removeprefix(PROMPT) if line.startswith(PROMPT) else ""
        asks = _QUESTION in line
        if typed and not awaited:  # the first message of a block
            person.types(typed)
        elif line.startswith(PROMPT) or asks:
            shown = person.until(_QUESTION.encode() if asks else PROMPT.encode())
            compared(awaited, shown)
            awaited.clear()
            if asks:
                person.types(line.rpartition(_QUESTION)[2])
            elif typed:
                person.types(typed)
        elif line.strip():
            awaited.append(line)


def commanded(toolcaddie: CommandLine, text: str) -> None:
    """Runs the commands of a block, and compares what each prints."""
    for part in re.split(r"^\$ toolcaddie ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        compared(lines, toolcaddie.ok(*shlex.split(command)))


def compared(awaited: Sequence[str], shown: str) -> None:
    """Compares lines with what is shown: in this order, `...` standing for anything within a line."""
    rest = _COLOURS.sub("", shown.replace("\r", ""))
    for line in awaited:
        pattern = r"[^\n]*?".join(map(re.escape, line.replace(" ... ", "...").split("...")))
        match = re.search(rf"^{pattern}[^\n]*$" if line.endswith("...") else rf"^{pattern}\s*?$", rest, re.MULTILINE)
        assert match is not None, f"the page shows {line!r}, and this came: {rest}"
        rest = rest[match.end() :]
