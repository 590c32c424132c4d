"""The differences of two texts by lines, found in a bounded time whatever the texts are."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

_CONTEXT = 3
_MOST_COMPARED = 2_000
"""The largest number of lines between the first and the last change that are compared with each other."""
_MOST_PAIRS = 10_000
"""The largest number of pairs of equal lines in them. Comparing takes time in proportion to both; at most a second or two."""

Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a unified diff, without those that name the two texts."""
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
