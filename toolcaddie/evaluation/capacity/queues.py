"""Formulas of queues: M/G/c by Allen and Cunneen, and percentiles of mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

_STEPS = 60
"""Bisections of a percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The waiting in a queue: with `chance`, and then exponential with mean `seconds`."""

    chance: float
    seconds: float

    @property
    def mean(self) -> float:
        return self.chance * self.seconds

    def reached(self, seconds: float) -> float:
        """Returns the share of requests that wait at most so long."""
        if seconds < 0:
            return 0.0
        return 1.0 if self.seconds == 0 else 1 - self.chance * math.exp(-seconds / self.seconds)


def erlang_c(servers: int, utilisation: float) -> float:
    """Returns the chance that all servers are busy. `utilisation`: the share of their time that is used, below 1."""
    offered, blocked = servers * utilisation, 1.0
    for number in range(1, servers + 1):  # Erlang's B, by its recursion, which neither overflows nor loses digits
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - utilisation * (1 - blocked))


def waiting(servers: int, rate: float, seconds: float, variation: float) -> Waiting:
    """Returns the waiting of `rate` Poisson arrivals a second before `servers` equal servers.

    `seconds`: the mean time of service. `variation`: its variance, divided by the square of its mean. Raises `ValueError` if the
    servers cannot keep up.
    """
    utilisation = rate * seconds / servers
    if utilisation >= 1:
        raise ValueError(f"{servers} servers are used to {utilisation:.0%}")
    mean = (1 + variation) / 2 * seconds / (servers * (1 - utilisation))
    return Waiting(chance=erlang_c(servers, utilisation), seconds=mean)


def spread(seconds: float, variation: float, places: int = 40) -> Sequence[float]:
    """Returns equally likely times with this mean, of a lognormal distribution.

    `variation`: their variance, divided by the square of the mean.
    """
    sigma = math.sqrt(math.log(1 + variation))
    factors = [math.exp(sigma * NormalDist().inv_cdf((number + 0.5) / places)) for number in range(places)]
    return [seconds * factor / fmean(factors) for factor in factors]


def percentile(share: float, services: Sequence[tuple[float, float]], wait: Waiting) -> float:
    """Returns the seconds that `share` of all requests take at most. `services`: the shares of requests, and their seconds of
    service."""
    low, high = 0.0, max(seconds for _, seconds in services) + wait.seconds * 50 + 1e-9
    for _ in range(_STEPS):
        middle = (low + high) / 2
        reached = sum(part * wait.reached(middle - seconds) for part, seconds in services)
        low, high = (low, middle) if reached >= share else (middle, high)
    return high
