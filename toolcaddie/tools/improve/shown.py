"""The part of a bot's files that a reviewer is given: of logs and notes, what the person may read for whom the bot asks. So
neither the reviewer's words nor the difference tell one person what another one said."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.personas import LOGS, NOTES, PersonaFile
from toolcaddie.tools.improve.values import Change
from toolcaddie.tools.memory.reading import file_lines
from toolcaddie.tools.memory.visibility import Reader
from toolcaddie.util.replacing import replace


def shown_file(file: PersonaFile, reader: Reader) -> PersonaFile | None:
    """Returns a file with the lines that a reader may see; None: there is none."""
    flags = _flags(file, reader)
    if all(flags):
        return file
    lines = [line for line, is_shown in zip(file.text.split("\n"), flags, strict=True) if is_shown]
    return replace(file, text="\n".join(lines)) if any(line.strip() for line in lines) else None


def with_hidden_lines(change: Change, file: PersonaFile, reader: Reader) -> Change:
    """Returns a change of the shown part of a file as one of the whole file, in which the hidden lines stay."""
    flags = _flags(file, reader)
    if all(flags):
        return change
    before, after = change.before.split("\n"), change.after.split("\n")
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    middle, last = after[start : len(after) - end], len(before) - end
    whole: list[str] = []
    place = 0
    for line, is_shown in zip(file.text.split("\n"), flags, strict=True):
        if is_shown and place == start:
            whole += middle
        if not is_shown or not start <= place < last:
            whole.append(line)
        place += is_shown
    if start == place:  # behind the last line that is shown
        whole += middle
    return replace(change, whole="\n".join(whole))


def _flags(file: PersonaFile, reader: Reader) -> Sequence[bool]:
    """Returns for each line whether the reader may see it. Only logs and notes have lines of one person."""
    if not file.path.startswith((LOGS, NOTES)):
        return [True]
    return [reader.sees(line.label) for line in file_lines(file)]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Returns the number of lines with which both begin alike."""
    pairs = zip(one, other, strict=False)
    return next((number for number, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))
