"""Output of commands: results on stdout as text or JSON, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolcaddie.doors.cli.echo import echo, echo_json
from toolcaddie.util.text import visible_line

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_UNBOUNDED = 10_000
"""The width of a table if stdout is not a terminal: in a file or a pipe, no line is wrapped."""

_PREFERRED_LAST = 36
"""Width that the last column gets, unless its text is shorter: `spare` columns are omitted until it has this width."""

_LEAST_LAST = 20
"""The smallest width of the last column, unless its text is shorter. To keep it, a table may be wider than the terminal."""

_GAP = 3
"""Number of blanks between two columns."""


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Prints `value` as a JSON document, which contains no raw control character. The document is indented, because people read
    it as often as scripts do. `one_line`: it is printed on one line, because other documents follow."""
    echo_json(msgspec.json.format(msgspec.json.encode(value), indent=-1 if one_line else 2).decode())


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Prints rows below their column names. The columns in `right` are aligned to the right, because they contain numbers.

    If the terminal is too narrow, columns in `spare` are omitted one after the other, the first of `spare` first. Then the text
    of the last column is wrapped. The other columns are never truncated, because people copy ids, names and states from them; if
    they are still too wide, the terminal breaks the line.
    """
    cells = [["" if cell is None else visible_line(str(cell)) for cell in row] for row in rows]
    widths = {
        name: max(cell_len(line) for line in (name, *(row[at] for row in cells))) for at, name in enumerate(columns)
    }
    last = columns[-1]
    room = Console().width if sys.stdout.isatty() else _UNBOUNDED
    names = _fitting_columns({**widths, last: min(widths[last], _PREFERRED_LAST)}, spare, room)
    least = _width({**widths, last: min(widths[last], _LEAST_LAST)}, names)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name != last, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for name, cell in zip(columns, row, strict=True) if name in names))
    console = Console(width=max(room, least), highlight=False)
    with console.capture() as captured:
        console.print(table)
    # Not `echo`: the cells are made safe above, and the other characters are the table's own.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _fitting_columns(widths: Mapping[str, int], spare: Sequence[str], room: int) -> list[str]:
    """Returns the names of the columns that are printed: columns in `spare` are omitted until the table fits into `room`
    characters. `widths`: the width of each column."""
    names = list(widths)
    for name in spare:
        if _width(widths, names) <= room:
            break
        names.remove(name)
    return names


def _width(widths: Mapping[str, int], names: Sequence[str]) -> int:
    """Returns the width of a table that has the columns `names`."""
    return sum(widths[name] for name in names) + _GAP * (len(names) - 1)


def note(text: str) -> None:
    """Prints a remark for the person at the terminal."""
    echo(text, err=True, dim=True)


def note_degraded(runtime: Degradable) -> None:
    """Prints a remark for each part of the runtime that does not work, such as an embedder that cannot be reached."""
    for sentence in runtime.degraded:
        note(sentence)


class Degradable(Protocol):
    """A runtime that lists its parts that do not work, one sentence each."""

    @property
    def degraded(self) -> Sequence[str]: ...
