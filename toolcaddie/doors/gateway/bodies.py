"""Limits the memory for request bodies: the number of bytes that the bodies of all requests in progress may have together."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

_FREE = 64 * 1024
"""Bytes of each body that are not counted, so that small requests are accepted while large ones use up the limit. The limit of
connections also limits the sum of these bytes."""
_MOST_DIGITS = 19
"""The largest number of digits of a length."""


class Bodies:
    """Counts the bytes of all bodies, up to `most`. Each request has a share, which counts the bytes of its own body.

    with bodies.share() as share:
        if not share.take(len(piece)):
            ...  # the bodies of all requests have reached the limit
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0

    def share(self) -> Share:
        return Share(self)

    def _take(self, size: int) -> bool:
        if self._total + size > self._most:
            return False
        self._total += size
        return True

    def _give(self, size: int) -> None:
        self._total -= size


class Share:
    """The bytes of one body: `size` is the number of all that arrived. They no longer count after the end of the `with` block."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._counted_bytes = 0
        self.size = 0

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.give()

    def take(self, size: int) -> bool:
        """Counts another piece of the body. Returns False if the limit does not allow it."""
        self.size += size
        counted = max(0, self.size - _FREE) - self._counted_bytes
        if counted > 0:
            if not self._bodies._take(counted):
                return False
            self._counted_bytes += counted
        return True

    def fits(self, size: int) -> bool:
        """Returns True if a whole body of so many bytes would be within the limit at present."""
        return self._bodies._total + max(0, size - _FREE) <= self._bodies._most

    def give(self) -> None:
        """Subtracts all bytes of this body from the counter. It may be called more than once."""
        self._bodies._give(self._counted_bytes)
        self._counted_bytes = 0


def declared_length(headers: Mapping[bytes, bytes]) -> int:
    """Returns the length of a body as its sender declares it; 0: it is not declared."""
    text = headers.get(b"content-length", b"")
    return int(text) if text.isdigit() and len(text) <= _MOST_DIGITS else 0
