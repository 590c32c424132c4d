"""Counts that `security` reports: some say how much was tried, the others count damage and must be 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """One line of the report."""

    what: str
    number: int
    must_be_zero: bool = False
    examples: Sequence[str] = ()
    """Some of the counted things, as a start for an investigation."""

    @property
    def wrong(self) -> bool:
        return self.must_be_zero and self.number > 0

    def line(self) -> str:
        if not self.must_be_zero:
            return f"{self.number:>8,} {self.what}"
        shown = f"  {', '.join(self.examples[:5])}" if self.wrong else ""
        return f"{'MISSED' if self.wrong else 'met':<7} {self.what}: {self.number:,} (goal: 0){shown}"


def tried(what: str, number: int) -> Count:
    return Count(what=what, number=number)


def none_of(what: str, examples: Sequence[str]) -> Count:
    """Returns a count that must be 0: the number of `examples`."""
    return Count(what=what, number=len(examples), must_be_zero=True, examples=tuple(examples[:20]))
