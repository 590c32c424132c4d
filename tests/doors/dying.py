"""Workers for `toolcaddie.doors.cli.workers` that end in ways of their own. Each start adds a letter to the file `starts`.

They have a file of their own, because each of their processes imports it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli.workers import Report


def dies(number: int, report: Report, starts: Path) -> None:
    """Starts, and is killed at once."""
    _count(starts)
    report(number)
    os.kill(os.getpid(), signal.SIGKILL)


def fails_later(number: int, report: Report, starts: Path) -> None:
    """Starts and ends the first time, and cannot start again."""
    if _count(starts) > 1:
        raise ConfigError("the settings are wrong now")
    report(number)


def reloads(number: int, report: Report, starts: Path) -> None:
    """Starts, waits for SIGHUP, and fails."""
    _count(starts)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    report(number)
    signal.sigwait({signal.SIGHUP})
    raise ConfigError("it was told to reload")


def _count(starts: Path) -> int:
    with starts.open("a") as file:
        file.write("x")
    return len(starts.read_text())
