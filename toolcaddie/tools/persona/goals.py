"""Reads and changes GOALS.md: checkboxes, with indented lines for status, priority, notes, date and outcome.

    - [ ] Learn Spanish
      - status: in_progress
      - priority: high

Only the lines of the goal that is changed are touched; everything else survives byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolcaddie.core.errors import RequestError

KEPT = 10
"""The number of completed goals that stay in the file."""

_BOX = re.compile(r"[-*] \[([ xX])\] (.*?)\r?")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal, and its lines in the file."""

    text: str
    done: bool
    start: int
    end: int
    fields: Mapping[str, str]


def goals_of(text: str) -> list[Goal]:
    """Returns the goals of a file. Checkboxes in code blocks and indented ones are none."""
    lines = text.split("\n")
    goals: list[Goal] = []
    fenced = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        match = None if fenced else _BOX.fullmatch(line)
        if match is not None:
            end = number + 1
            while end < len(lines) and lines[end].startswith((" ", "\t")):
                end += 1
            found = (re.fullmatch(r"\s+- (\w+): (.*?)\r?", each) for each in lines[number + 1 : end])
            fields = {each[1]: each[2] for each in found if each}
            goals.append(Goal(text=match[2].strip(), done=match[1] != " ", start=number, end=end, fields=fields))
    return goals


def found_goal(text: str, words: str) -> Goal:
    """Returns the open goal with these words. Raises `RequestError` if there is none, or several."""
    wanted = words.strip().casefold()
    fitting = [goal for goal in goals_of(text) if not goal.done and wanted in goal.text.casefold()]
    exact = [goal for goal in fitting if goal.text.casefold() == wanted]
    if len(exact) == 1:
        return exact[0]
    if not fitting:
        raise RequestError(f"no open goal contains {words[:100]!r}; action list shows the goals")
    if len(fitting) > 1:
        raise RequestError(
            f"several goals contain {words[:100]!r}: {'; '.join(goal.text for goal in fitting[:10])}; name one"
        )
    return fitting[0]


def added(text: str, goal: str, fields: Mapping[str, str]) -> str:
    """Returns the file with a further goal. Raises `RequestError` if there is an open one with this text."""
    goals = goals_of(text)
    if any(not each.done and each.text.casefold() == goal.casefold() for each in goals):
        raise RequestError(f"there is a goal {goal[:100]!r} already")
    new = [f"- [ ] {goal}", *(f"  - {name}: {value}" for name, value in fields.items())]
    lines = (text or "# Goals\n\n").split("\n")
    ends = [each.end for each in goals if not each.done] or [len(lines) - (lines[-1] == "")]
    lines[ends[-1] : ends[-1]] = new if lines[-1] == "" or ends[-1] < len(lines) else [*new, ""]
    return "\n".join(lines)


def changed(text: str, goal: Goal, fields: Mapping[str, str], *, done: bool = False) -> str:
    """Returns the file with other fields of a goal."""
    lines = text.split("\n")
    block, missing = lines[goal.start : goal.end], dict(fields)
    line_end = "\r" if block[0].endswith("\r") else ""
    for number, line in enumerate(block):
        match = re.fullmatch(r"(\s+- (\w+): )(.*?)(\r?)", line)
        if match and match[2] in missing:
            block[number] = f"{match[1]}{missing.pop(match[2])}{match[4]}"
    block += [f"  - {name}: {value}{line_end}" for name, value in missing.items()]
    if done:
        block[0] = block[0].replace("[ ]", "[x]", 1)
    return "\n".join([*lines[: goal.start], *block, *lines[goal.end :]])


def without_old(text: str) -> tuple[str, str]:
    """Returns the file with the last ten completed goals, and the lines of the older ones."""
    done = [goal for goal in goals_of(text) if goal.done]
    oldest = sorted(done, key=lambda goal: goal.fields.get("completed", ""))[: max(0, len(done) - KEPT)]
    lines = text.split("\n")
    archived: list[str] = []
    for goal in sorted(oldest, key=lambda goal: -goal.start):
        archived[:0] = lines[goal.start : goal.end]
        del lines[goal.start : goal.end]
    return "\n".join(lines), "".join(f"{line}\n" for line in archived)
