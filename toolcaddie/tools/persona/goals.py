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
_FIELD = re.compile(r"(?P<start>\s+- (?P<name>\w+): )(?P<value>.*?)(?P<end>\r?)")
_NAMED = 10
"""The largest number of goals that an error names."""
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
        box = None if fenced else _BOX.fullmatch(line)
        if box is not None:
            end = number + 1
            while end < len(lines) and lines[end].startswith((" ", "\t")):
                end += 1
            matches = [_FIELD.fullmatch(each) for each in lines[number + 1 : end]]
            fields = {match["name"]: match["value"] for match in matches[::-1] if match}
            goals.append(Goal(text=box[2].strip(), done=box[1] != " ", start=number, end=end, fields=fields))
    return goals


def open_goal(text: str, words: str) -> Goal:
    """Returns the open goal with these words. Raises `RequestError` if there is none, or several."""
    wanted = words.casefold()
    fitting = [goal for goal in goals_of(text) if not goal.done and wanted in goal.text.casefold()]
    exact = [goal for goal in fitting if goal.text.casefold() == wanted]
    if len(exact) == 1:
        return exact[0]
    if not fitting:
        raise RequestError(f"no open goal contains {words[:100]!r}; action list shows the goals", param="goal")
    if len(fitting) > 1:
        names = "; ".join(goal.text for goal in fitting[:_NAMED])
        more = f"; and {len(fitting) - _NAMED} more" if len(fitting) > _NAMED else ""
        raise RequestError(f"several goals contain {words[:100]!r}: {names}{more}. Name one of them", param="goal")
    return fitting[0]


def with_goal(text: str, goal: str, fields: Mapping[str, str]) -> str:
    """Returns the file with a further goal, behind the last open one. Raises `RequestError` if there is an open one with this
    text, or no place for it."""
    goals = [each for each in goals_of(text) if not each.done]
    if any(each.text.casefold() == goal.casefold() for each in goals):
        raise RequestError(f"there is a goal {goal[:100]!r} already; action update changes it", param="goal")
    lines = (text or "# Goals\n\n").split("\n")
    line_end = "\r" if lines[0].endswith("\r") else ""
    new = [f"{line}{line_end}" for line in (f"- [ ] {goal}", *(f"  - {name}: {fields[name]}" for name in fields))]
    place = goals[-1].end if goals else len(lines) - (lines[-1] == "")
    if place == len(lines):  # behind a last line without an end, which gets one
        lines[-1] += "" if lines[-1].endswith("\r") else line_end
        new.append("")
    lines[place:place] = new
    after = "\n".join(lines)
    if not any(each.text == goal and not each.done for each in goals_of(after)):
        raise RequestError("GOALS.md ends within a block of code, so a goal there would be none; close the block")
    return after


def with_changes(text: str, goal: Goal, fields: Mapping[str, str], *, done: bool = False) -> str:
    """Returns the file with other fields of a goal. `done`: it is checked too."""
    lines = text.split("\n")
    block, missing = lines[goal.start : goal.end], dict(fields)
    line_end = "\r" if block[0].endswith("\r") else ""
    for number, line in enumerate(block):
        match = _FIELD.fullmatch(line)
        if number and match and match["name"] in missing:
            block[number] = f"{match['start']}{missing.pop(match['name'])}{match['end']}"
    if missing and goal.end == len(lines):  # the last line has no end, and gets one
        block[-1] += "" if block[-1].endswith("\r") else line_end
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
