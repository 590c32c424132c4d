"""One line of the report for each goal: its name, the figure, the goal, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal and the figure that was measured, both in words: `Goal(name="single changes not found", figure="0 of 10,000",
    goal="0", met=True)`."""

    name: str
    figure: str
    goal: str
    met: bool

    @property
    def wrong(self) -> bool:
        return not self.met

    def line(self) -> str:
        return f"{'met' if self.met else 'MISSED':<7} {self.name}: {self.figure} (goal: {self.goal})"


def none_of(name: str, count: int, total: int) -> Goal:
    """Returns the goal that something happened in none of a number of cases."""
    return Goal(name=name, figure=f"{count:,} of {total:,}", goal="0", met=count == 0 and total > 0)
