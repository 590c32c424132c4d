"""The bodies of all requests that are being received, read or checked, counted together."""

from __future__ import annotations

from types import TracebackType

_FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small requests pass while large ones fill everything. The number of
connections bounds them all the same."""


class Bodies:
    """At most `most` bytes at once.

    with bodies.share() as share:
        if not share.take(len(piece)):
            ...  # no more room
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    def share(self) -> Share:
        return Share(self)

    def _take(self, size: int) -> bool:
        if self._taken + size > self._most:
            return False
        self._taken += size
        return True

    def _give(self, size: int) -> None:
        self._taken -= size


class Share:
    """What one body takes, given back at the end of the block."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._counted = 0
        self.size = 0

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.give()

    def take(self, size: int) -> bool:
        """Counts a piece more; False: there is no room for it."""
        self.size += size
        counted = max(0, self.size - _FREE) - self._counted
        if counted > 0:
            if not self._bodies._take(counted):
                return False
            self._counted += counted
        return True

    def give(self) -> None:
        """Gives back all of it. May be called again."""
        self._bodies._give(self._counted)
        self._counted = 0
