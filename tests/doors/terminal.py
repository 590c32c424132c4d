"""A command on a terminal of its own, to which a test types as a person would."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.databases import home_environment

_PATIENCE = 3.0
"""Seconds after which a person presses Ctrl-C again."""


class Terminal:
    """A process on a terminal of its own, to which a test types."""

    def __init__(self, end: int, process: subprocess.Popen[bytes]) -> None:
        self._end, self._process = end, process

    def until(self, text: bytes) -> str:
        """Returns what the process prints up to this text. The time limit of the test ends a wait for a text that never comes."""
        shown = b""
        while text not in shown:
            shown += os.read(self._end, 65_536)
        return shown.decode()

    def types(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def ended(self) -> int:
        """Waits until the process has ended, and returns its exit code."""
        return self._process.wait()

    def interrupts_until(self, text: bytes) -> str:
        """Presses Ctrl-C, and returns what the process prints up to this text. As a person would, it presses again if nothing is
        printed for some seconds: a signal between the prompt and the reading of a line is noticed with the next key only."""
        shown = b""
        while not shown:
            self._process.send_signal(signal.SIGINT)
            if select.select([self._end], [], [], _PATIENCE)[0]:
                shown = os.read(self._end, 65_536)
        return shown.decode() + ("" if text in shown else self.until(text))


def _with_ctrl_c() -> None:
    """Lets Ctrl-C reach this process, also where the tests run in the background of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def terminal(*words: str) -> AbstractContextManager[Terminal]:
    """Starts `toolcaddie WORDS` on a terminal, and ends it."""
    return python("-m", "toolcaddie", *words)


@contextmanager
def python(*words: str) -> Iterator[Terminal]:
    """Starts `python WORDS` on a terminal, and ends it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, *words],
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200", **home_environment(Path.cwd())},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_with_ctrl_c,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)
