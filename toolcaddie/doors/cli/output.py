"""Output of commands: results on stdout as text or JSON, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
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
"""Columns where nobody looks: a table that goes into a file or a pipe is never cut."""

_WISHED_LAST, _LEAST_LAST = 36, 20
"""Least width of the last column, if its text is that long: before columns in front of it are omitted, and in any case."""

_GAP = 3
"""Blanks between two columns."""


def print_json(value: Any, *, one_line: bool = False) -> None:
    """One JSON document, indented: read by people as often as by scripts. `one_line` where there will be many. It decodes to
    exactly `value`, and holds no control character as it stands."""
    echo_json(msgspec.json.format(msgspec.json.encode(value), indent=-1 if one_line else 2).decode())


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Rows under their heads; columns named in `right` are numbers.

    On a narrow terminal columns named in `spare` are left out, the first one first, then the last column wraps. The others
    are never cut, since ids, names and states are copied from them: rather the terminal breaks the line.
    """
    cells = [["" if cell is None else visible_line(str(cell)) for cell in row] for row in rows]
    widths = {
        name: max(cell_len(line) for line in (name, *(row[at] for row in cells))) for at, name in enumerate(columns)
    }
    last = columns[-1]
    room = Console().width if sys.stdout.isatty() else _UNBOUNDED
    shown = _that_fit({**widths, last: min(widths[last], _WISHED_LAST)}, spare, room)
    least = _width({**widths, last: min(widths[last], _LEAST_LAST)}, shown)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in shown:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name != last, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for name, cell in zip(columns, row, strict=True) if name in shown))
    console = Console(width=max(room, least), highlight=False)
    with console.capture() as captured:
        console.print(table)
    # Its cells are made safe above; what else is in it is the table's own.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _that_fit(widths: Mapping[str, int], spare: Sequence[str], room: int) -> list[str]:
    """Names of the columns that are shown."""
    shown = list(widths)
    for name in spare:
        if _width(widths, shown) <= room:
            break
        shown.remove(name)
    return shown


def _width(widths: Mapping[str, int], shown: Sequence[str]) -> int:
    return sum(widths[name] for name in shown) + _GAP * (len(shown) - 1)


def note(text: str) -> None:
    """A remark for the person at the terminal."""
    echo(text, err=True, dim=True)


def tell_degraded(runtime: Degradable) -> None:
    """A remark for each part that does not work."""
    for sentence in runtime.degraded:
        note(sentence)


class Degradable(Protocol):
    """The part of a runtime that says what does not work."""

    @property
    def degraded(self) -> Sequence[str]: ...


def counted(number: int, what: str) -> str:
    """`1 run`, `2,000 runs`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def local_time(seconds: float | None) -> str:
    """Seconds since the epoch as this machine's clock shows them."""
    return "" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def shortened(text: str, size: int) -> str:
    """One line of at most `size` characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else line[: size - 1] + "…"
