"""The difference between two contents of a file, for a person who is asked about a change."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

MOST_LINES = 1_000
MOST_CHARACTERS = 50_000
_CONTEXT = 3
_MOST_COMPARED = 2_000
"""The largest number of lines between the first and the last change that are compared with each other."""
_MOST_PAIRS = 20_000
"""The largest number of pairs of equal lines in them. Comparing takes time in proportion to both."""

Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


def unified(path: str, before: bytes | None, after: bytes) -> str:
    """Returns the unified diff of a file. `before`: None for a new file.

    Its first lines have digests of both contents. So two changes have the same diff only if they are the same, even where the
    diff is cut.
    """
    is_text = not any(b"\0" in content for content in (before or b"", after))
    body = _cut(_hunks(_lines(before or b""), _lines(after))) if is_text else ["the file is not text"]
    return "\n".join([f"--- {_title(path, before)}", f"+++ {_title(path, after)}", *(body or ["nothing changes"])])


def _title(path: str, content: bytes | None) -> str:
    if content is None:
        return "/dev/null"
    return f"{path} ({len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:32]})"


def _lines(content: bytes) -> list[str]:
    """Returns the lines of a content. A line that has no line end, or no ordinary one, says so."""
    lines = content.decode(errors="backslashreplace").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for group in _groups(_opcodes(old, new)):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for kind, old_start, old_end, new_start, new_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[old_start:old_end])
                continue
            yield from (f"-{line}" for line in old[old_start:old_end])
            yield from (f"+{line}" for line in new[new_start:new_end])


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + (length > 0)},{length}"


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """Returns which lines are equal and which are replaced. Lines before the first and after the last change are not compared."""
    start = _equal_beginning(old, new)
    end = _equal_beginning(old[start:][::-1], new[start:][::-1])
    old_end, new_end = len(old) - end, len(new) - end
    middle = _compared(old[start:old_end], new[start:new_end])
    opcodes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    opcodes += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in middle]
    return [*opcodes, ("equal", old_end, len(old), new_end, len(new))] if end else opcodes


def _equal_beginning(old: Sequence[str], new: Sequence[str]) -> int:
    shorter = min(len(old), len(new))
    return next((at for at in range(shorter) if old[at] != new[at]), shorter)


def _compared(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    if not old and not new:
        return []
    counts = Counter(new)
    pairs = sum(count * counts[line] for line, count in Counter(old).items())
    if max(len(old), len(new)) > _MOST_COMPARED or pairs > _MOST_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return [*difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()]


class _Known(difflib.SequenceMatcher[str]):
    """A comparison whose outcome is known, for the grouping of `difflib`."""

    def __init__(self, opcodes: list[Opcode]) -> None:
        super().__init__(None, "", "")
        self._known = opcodes

    def get_opcodes(self) -> list[Opcode]:
        return self._known


def _groups(opcodes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Yields the changes with a few equal lines around them; changes that are near to each other together."""
    if any(kind != "equal" for kind, *_ in opcodes):
        yield from map(list, _Known(opcodes).get_grouped_opcodes(_CONTEXT))


def _cut(lines: Iterator[str]) -> list[str]:
    """Returns as many lines as a person can be shown, and how many there are beyond. Those are counted and not kept: the
    difference of two files takes several times their memory."""
    kept: list[str] = []
    size = rest = 0
    for line in lines:
        size += len(line) + 1
        if rest or len(kept) == MOST_LINES or size > MOST_CHARACTERS:
            rest += 1
        else:
            kept.append(line)
    return [*kept, f"... {rest:,} more lines of the difference are not shown"] if rest else kept
