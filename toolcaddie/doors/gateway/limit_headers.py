"""Reports the limits of an API key to its client: OpenAI's `x-ratelimit-*`, for every door, and Anthropic's
`anthropic-ratelimit-*` at the door of the Messages API.

There is one header for requests and one for tokens, but a key may have a limit for a minute and one for a day. The headers show
the one of which less remains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from toolcaddie.core.key_limits import Allowance, Counted
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.problems import problem

HIDDEN = (b"x-ratelimit-", b"anthropic-ratelimit-", b"ratelimit")
"""Beginnings of the upstream's own headers of this kind, which are not returned to a client whose key has limits: they report on
the operator's key."""
_IN_HEADERS: tuple[Counted, ...] = ("requests", "tokens")


def report_headers(allowances: Sequence[Allowance], now: float, *, wire: WireName) -> Mapping[str, str]:
    """Returns the headers that report the limits of requests and tokens."""
    headers: dict[str, str] = {}
    for counted in _IN_HEADERS:
        candidates = [each for each in allowances if each.counted == counted]
        if not candidates:
            continue
        shown = min(candidates, key=lambda each: each.remaining)
        limit, remaining = str(int(shown.limit)), str(int(shown.remaining))
        headers[f"x-ratelimit-limit-{counted}"] = limit
        headers[f"x-ratelimit-remaining-{counted}"] = remaining
        headers[f"x-ratelimit-reset-{counted}"] = duration(shown.resets - now)
        if wire == "messages":
            headers[f"anthropic-ratelimit-{counted}-limit"] = limit
            headers[f"anthropic-ratelimit-{counted}-remaining"] = remaining
            headers[f"anthropic-ratelimit-{counted}-reset"] = (
                datetime.fromtimestamp(shown.resets, UTC).isoformat().replace("+00:00", "Z")
            )
    return headers


def refusal_of(exceeded: Sequence[Allowance], key_name: str, now: float) -> Problem:
    """Returns the refusal of a request that would exceed limits. It names the one that lasts longest."""
    worst = max(exceeded, key=lambda each: each.resets)
    wait = max(1, math.ceil(worst.resets - now))
    message = (
        f"Rate limit reached for the key {key_name!r} on {worst.counted} per {worst.span}: limit {worst.limit:,.15g}, "
        f"used or reserved {round(worst.used, 6):,.15g}. Please try again in {duration(wait)}."
    )
    return problem(429, message, kind=worst.counted, code="rate_limit_exceeded", headers={"retry-after": str(wait)})


def duration(seconds: float) -> str:
    """Returns a length of time as OpenAI writes it: `850ms`, `12s`, `6m0s`, `23h59m59s`."""
    if seconds < 1:
        return f"{max(0, math.ceil(seconds * 1_000))}ms"
    whole = math.ceil(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
