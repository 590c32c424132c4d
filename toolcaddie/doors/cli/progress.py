"""A progress bar for commands that take long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(activity: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that draws a progress bar on stderr, if stderr is a terminal. Its parameters are the number of completed
    steps and of all steps."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(activity, total=None)
        yield lambda completed, total: bar.update(task, completed=completed, total=total)
