"""Steps of the tests of copies: changes of a source, and the look at a copy that fails."""

from __future__ import annotations

import contextlib
import sqlite3

from tests.doors.commandline import CommandLine


def change(source: str, statement: str) -> None:
    """Changes the source as another program would."""
    with contextlib.closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as other, other:
        other.execute(statement)


def require_untouched(line: CommandLine, source: str, target: str) -> None:
    """The target is no database, and takes the source's once nothing is in the way."""
    assert "there is no database" in line.refused("db", "stats", "--database-url", target)
    assert line.json("db", "copy", source, target)["verified"] > 0


def failure(line: CommandLine, source: str, target: str) -> str:
    """The one line of a copy that fails although it was used correctly."""
    result = line("db", "copy", source, target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    return result.stderr
