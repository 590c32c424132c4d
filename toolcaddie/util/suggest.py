"""Suggestions for a mistyped name, for error messages: the existing names that look most like it."""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Iterable, Sequence
from heapq import nsmallest

_BITS = 256
"""Bits of a name's sketch, a number in which each pair of adjacent letters of the name sets one bit."""
_COMPARED = 16
"""The number of names with the closest sketches that are then compared letter by letter."""
_MOST_LETTERS = 64
"""Letters of a mistyped name that are compared; the rest is cut, because a hostile name may be long."""


def close_names(name: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Returns at most `limit` of `names` that look like `name`, the closest first."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    mistyped = name[:_MOST_LETTERS].lower()
    return [by_lower[match] for match in difflib.get_close_matches(mistyped, by_lower, n=limit, cutoff=0.6)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns the end of an error message about an unknown name: the closest existing name, then all existing names, unless there
    is only this one."""
    existing = list(names)
    close = close_names(name, existing, limit=1)
    if len(existing) == 1:
        return f"did you mean {close[0]!r}?" if close else f"there is only {existing[0]!r}"
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}there are {', '.join(existing)}" if existing else "there are none"


class Names:
    """An index of many names. A lookup among 10,000 names takes about 1 ms; `close_names` alone would take 10 ms."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sketches = [_sketch(name) for name in names]
        self._sizes = [sketch.bit_count() for sketch in self._sketches]

    def close(self, name: str, mask: bytes | None = None, *, limit: int = 3) -> list[str]:
        """Returns close names as `close_names` does. With a `mask`, only names whose byte in it is not 0 are suggested."""
        sketch = _sketch(name[:_MOST_LETTERS])
        size = sketch.bit_count()
        # The number of common bits divided by the number of bits of both sketches: half of the Dice coefficient of letter pairs.
        alike = [
            (common / (size + other), place)
            for place, (common, other) in enumerate(
                zip([(each & sketch).bit_count() for each in self._sketches], self._sizes, strict=True)
            )
            if common and (mask is None or mask[place])
        ]
        best = nsmallest(_COMPARED, alike, key=_closest_first)
        return close_names(name, [self._names[place] for _, place in best], limit=limit)


def _closest_first(alike: tuple[float, int]) -> tuple[float, int]:
    return -alike[0], alike[1]


def _sketch(name: str) -> int:
    """Returns the sketch of a name: one bit is set for each pair of adjacent letters, with a blank at both ends."""
    text = f" {name.lower()} "
    bits = 0
    for at in range(len(text) - 1):  # crc32 and not hash(): the same in every process
        bits |= 1 << (zlib.crc32(text[at : at + 2].encode(errors="replace")) % _BITS)
    return bits
