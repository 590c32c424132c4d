"""Counts what tenants have had of late, so that one that has had much more than others can give way to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

_HALF_LIFE = 2.0
"""Seconds after which a request counts half as much."""
_TIMES, _MORE = 2.0, 4.0
"""A tenant is ahead of another one if it has had so many times as much, and so many requests more."""
_MOST = 1_000
"""Number of tenants that are remembered, before those that have had hardly anything of late are forgotten."""


class RecentUse:
    """The requests that tenants have begun of late. `weights`: shares by tenant; 1 for those that are not named."""

    def __init__(self, weights: Mapping[str, int], clock: Callable[[], float]) -> None:
        self._weights, self._clock = weights, clock
        self._uses: dict[str, tuple[float, float]] = {}
        """The use of each tenant, divided by its weight, and the moment at which it was computed."""

    def add(self, tenant: str) -> None:
        """Counts a request that begins."""
        if len(self._uses) >= _MOST and tenant not in self._uses:
            self._uses = {name: use for name, use in self._uses.items() if self._of(name) > 1.0}
        self._uses[tenant] = (self._of(tenant) + 1 / self._weights.get(tenant, 1), self._clock())

    def is_ahead(self, tenant: str, others: Iterable[str]) -> bool:
        """Returns True if a tenant has had much more of late than one of the others."""
        limit = (self._of(tenant) - _MORE) / _TIMES
        return limit > 0 and any(other != tenant and self._of(other) < limit for other in others)

    def _of(self, tenant: str) -> float:
        use = self._uses.get(tenant)
        return 0.0 if use is None else use[0] * math.exp2((use[1] - self._clock()) / _HALF_LIFE)
