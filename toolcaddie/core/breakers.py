"""The settings of circuit breakers, which stop requests to an upstream that fails again and again.

[breakers]
share = 0.5
requests = 10
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolcaddie.core.numbers import Positive, Seconds

CircuitState = Literal["closed", "open", "half-open"]
"""`closed`: requests are sent. `open`: they fail at once. `half-open`: one is sent, and its outcome decides."""


class Circuit(Struct, frozen=True, kw_only=True):
    """The circuit to one upstream at one moment."""

    upstream: str
    state: CircuitState
    requests: int
    """Requests in the window that ends now."""
    failures: int
    """Those of them that failed."""
    seconds_to_trial: float
    """Seconds until one request is sent as a trial; 0: the circuit is closed, or the next request is the trial."""


class BreakerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions under which the circuit to an upstream opens, and the time for which it does. Failures are refused
    connections, timeouts and statuses from 500; any other answer shows that the upstream works."""

    enabled: bool = True
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Share of failures from which the circuit opens."""
    requests: Positive = 10
    """Requests within the window, without which no share counts."""
    window: Seconds = 30.0
    """Seconds in which requests are counted."""
    pause: Seconds = 5.0
    """Seconds until a trial. They double with each trial that fails."""
    longest_pause: Seconds = 60.0
