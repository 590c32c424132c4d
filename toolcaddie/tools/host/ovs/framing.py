"""Cuts a stream of JSON objects, between which nothing stands, into single ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcaddie.core.errors import HostError

_MARK = re.compile(rb'["\\{}\[\]]')


class Frames:
    """The bytes of a stream of which no whole object has been made yet. No object may have more than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._place = 0
        """The number of bytes that were looked at."""
        self._depth = 0
        self._quoted = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Adds bytes, and yields the objects that they complete. Raises `HostError` for an object that is too long."""
        self._buffer += chunk
        while (end := self._end()) is not None:
            whole = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._place = 0
            yield whole
        if len(self._buffer) > self._most:
            raise HostError(f"ovsdb-server has sent more than {self._most} bytes at once")

    def _end(self) -> int | None:
        """Returns the place after the first object; None: it is not complete."""
        while (match := _MARK.search(self._buffer, self._place)) is not None:
            mark, self._place = match[0], match.end()
            if self._quoted and mark == b"\\":
                if self._place == len(self._buffer):  # the character after it has not come yet
                    self._place -= 1
                    return None
                self._place += 1
            elif mark == b'"':
                self._quoted = not self._quoted
            elif not self._quoted and mark in b"{[":
                self._depth += 1
            elif not self._quoted and mark in b"}]":
                self._depth -= 1
                if self._depth <= 0:
                    self._depth = 0
                    return self._place
        self._place = len(self._buffer)
        return None
