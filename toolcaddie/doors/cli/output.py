"""What commands print: results on stdout as text or JSON, everything beside them on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_UNBOUNDED = 10_000
"""Columns where nobody looks: a table that goes into a file or a pipe is never cut."""


def print_json(value: Any, *, one_line: bool = False) -> None:
    """One JSON document, indented: read by people as often as by scripts. `one_line` where there will be many."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=-1 if one_line else 2).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Rows under their heads; columns named in `right` are numbers. The last column wraps on a narrow terminal."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        is_last = name == columns[-1]
        table.add_column(name, justify="right" if name in right else "left", no_wrap=not is_last, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def note(text: str) -> None:
    """A remark for the person at the terminal."""
    click.echo(click.style(text, dim=True), err=True)


def warn(text: str) -> None:
    click.echo(click.style("warning: ", fg="yellow") + text, err=True)


def local_time(seconds: float | None) -> str:
    """Seconds since the epoch as this machine's clock shows them."""
    return "" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def shortened(text: str, size: int) -> str:
    """One line of at most `size` characters."""
    line = " ".join(text.split())
    return line if len(line) <= size else line[: size - 1] + "…"
