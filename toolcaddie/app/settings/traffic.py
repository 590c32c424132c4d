"""The settings of traffic: how many requests one process answers at once, how many wait, and the shares of tenants.

[traffic]
requests = 300
weights = {acme = 3}
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Positive, Seconds


class TrafficSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests at once, of one process. A request that finds no place waits, and each tenant's requests wait in a queue of their
    own."""

    requests: Positive | None = None
    """The largest number of requests that are answered at once. None: half of `bounds.connections`."""
    waiting: Positive | None = None
    """The largest number of requests that wait. None: a quarter of `bounds.connections`."""
    per_tenant: Positive | None = None
    """The largest number of requests of one tenant that are answered at once, as soon as there is more than one tenant. None:
    three quarters of `requests`."""
    wait_seconds: Seconds = 30.0
    """Seconds that a request waits at most."""
    weights: dict[str, Annotated[int, Meta(ge=1, le=100)]] = {}
    """Shares by tenant: a tenant of weight 3 gets three turns while others get one. Tenants that are not named have weight 1."""

    def places(self, bounds: Bounds = DEFAULT) -> Places:
        """Returns the numbers for a server with these bounds. Raises `ConfigError` if they leave no connection for anything
        else."""
        requests = self.requests or max(1, bounds.connections // 2)
        waiting = self.waiting or max(1, bounds.connections // 4)
        if (self.requests or self.waiting) and requests + waiting >= bounds.connections:
            raise ConfigError(
                f"traffic.requests ({requests:,}) and traffic.waiting ({waiting:,}) together must be below "
                f"bounds.connections ({bounds.connections:,}), so that health checks and the console still get a connection; "
                "lower one of them or raise bounds.connections"
            )
        per_tenant = min(requests, self.per_tenant or max(1, requests * 3 // 4))
        return Places(requests=requests, waiting=waiting, per_tenant=per_tenant)


class Places(Struct, frozen=True, kw_only=True):
    """The numbers of `TrafficSettings` for one server."""

    requests: int
    waiting: int
    per_tenant: int
