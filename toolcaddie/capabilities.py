"""What a model family and its API can do, as data. The first pattern that fits a model's name counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """`pattern` is a shell pattern over the model's name."""

    pattern: str = "*"
    tool_cap: int | None = 128
    """Tool definitions accepted in one request; None: no limit known."""
    required_choice: bool = True
    named_choice: bool = True
    parallel_calls: bool = True


CAPABILITIES: tuple[Capabilities, ...] = (
    Capabilities(pattern="practice", tool_cap=128),
    Capabilities(pattern="*"),
)


def capabilities_of(model: str, table: Sequence[Capabilities] = CAPABILITIES) -> Capabilities:
    """The first row of `table` whose pattern fits; unknown models get the careful defaults."""
    return next((row for row in table if fnmatchcase(model, row.pattern)), Capabilities())
