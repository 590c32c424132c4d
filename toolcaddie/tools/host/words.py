"""Words of other programs, such as the reason why something failed, as they may stand in an error."""

from __future__ import annotations

from toolcaddie.util.text import visible_line

_SHOWN = 300
"""The largest number of characters."""


def words(text: object, *, nothing: str = "it gave no reason") -> str:
    """Returns the words of another program as a bounded line. `nothing` stands for none."""
    line = visible_line(" ".join(str(text).split()).rstrip(".") or nothing)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
