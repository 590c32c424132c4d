"""Checks that the files of an SQLite database are still the ones that were opened.

SQLite goes on writing into a file that was deleted or moved away, and reports success: the rows are lost when the process
ends. Nothing else would notice, so the writer checks before every commit.
"""

from __future__ import annotations

import os
from pathlib import Path

from toolcaddie.core.errors import StorageError

_SUFFIXES = ("", "-wal", "-shm")
"""The database, its write-ahead log, and the index of that log. A commit is in the log until a checkpoint moves it."""


class FileGoneError(StorageError):
    """A file of the database was deleted, moved or replaced while it was open."""


class OpenFiles:
    """Remembers the identity of each file at its first check and compares it from then on."""

    def __init__(self, path: Path) -> None:
        self._main = str(path.absolute())
        self._identities: dict[str, tuple[int, int]] = {}

    def check_main(self) -> None:
        """Checks the database file alone. Call it before connecting, because SQLite would create a missing file."""
        self._check(self._main)

    def check(self) -> None:
        """Raises `FileGoneError` if a file is missing or was replaced.

        Call it inside a transaction, because only then do all three files exist. It costs a few microseconds.
        """
        for suffix in _SUFFIXES:
            self._check(self._main + suffix)

    def _check(self, path: str) -> None:
        """Compares the identity of one file with that of its first check. Raises `FileGoneError`."""
        try:
            status = os.stat(path)
        except OSError as error:
            raise FileGoneError(f"the database file {path} is gone ({error.strerror}); {_ADVICE}") from error
        identity = (status.st_dev, status.st_ino)
        if self._identities.setdefault(path, identity) != identity:
            raise FileGoneError(f"the database file {path} was replaced while it was open; {_ADVICE}")


_ADVICE = "put the file back where it was, or restart Toolcaddie to begin with what is there now"
