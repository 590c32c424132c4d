"""Measures durations on a machine that may be busy with other work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

_ATTEMPTS = 3
"""A busy machine holds up one attempt; what is too slow by itself is too slow in each."""


async def shortest(duration: Callable[[], Awaitable[float]], *, under: float) -> float:
    """Returns the least of some durations, in seconds. The first one below `under` is enough."""
    best = float("inf")
    for _ in range(_ATTEMPTS):
        best = min(best, await duration())
        if best < under:
            break
    return best
