"""The watch of a database that nobody watches."""

from __future__ import annotations


class Unwatched:
    """Implements `ports.StorageWatch` and ignores everything."""

    def committed(self, seconds: float) -> None:
        pass

    def failed(self) -> None:
        pass

    def trail_failed(self) -> None:
        pass

    def lease_lost(self) -> None:
        pass


UNWATCHED = Unwatched()
