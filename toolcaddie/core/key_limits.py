"""Limits of the gateway's API keys, and their use. Pure values.

A window is a minute or a day by the clock, in UTC: the minute from 12:00:00 to 12:01:00, the day from midnight to midnight.
Money is counted in billionths of a US dollar, which are whole numbers for every price per million tokens in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta, Struct

from toolcaddie.core.capabilities import Prices
from toolcaddie.core.numbers import Positive
from toolcaddie.core.usage import Usage
from toolcaddie.util.replacing import replace

Span = Literal["minute", "day"]
Counted = Literal["requests", "tokens", "dollars"]
Money = Annotated[float, Meta(gt=0)]

COUNTED: tuple[Counted, ...] = ("requests", "tokens", "dollars")
SPANS: Mapping[Span, int] = {"minute": 60, "day": 86_400}
"""Seconds of each window."""
BILLION = 1_000_000_000
"""Units of counted money in a US dollar."""


class KeyLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of an API key. None: there is no such limit."""

    requests_per_minute: Positive | None = None
    requests_per_day: Positive | None = None
    tokens_per_minute: Positive | None = None
    tokens_per_day: Positive | None = None
    dollars_per_minute: Money | None = None
    dollars_per_day: Money | None = None

    def of(self, counted: Counted, span: Span) -> float | None:
        limit: float | None = getattr(self, f"{counted}_per_{span}")
        return limit

    def with_own(self, own: Mapping[str, float | None]) -> KeyLimits:
        """Returns these limits, with the values that a key has of its own."""
        return replace(self, **own) if own else self


LIMIT_NAMES: tuple[str, ...] = KeyLimits.__struct_fields__
NO_LIMITS = KeyLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What counts against the limits."""

    requests: int = 0
    tokens: int = 0
    money: int = 0
    """Billionths of a US dollar."""

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            requests=self.requests + other.requests,
            tokens=self.tokens + other.tokens,
            money=self.money + other.money,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        return self + Amounts(requests=-other.requests, tokens=-other.tokens, money=-other.money)

    def of(self, counted: Counted) -> float:
        """Returns the number in the unit of its limit."""
        match counted:
            case "requests":
                return self.requests
            case "tokens":
                return self.tokens
            case "dollars":
                return self.money / BILLION

    def within(self, limits: KeyLimits) -> Amounts:
        """Returns amounts of which none is above a limit, so that an empty window always has room for them."""
        tokens = [limit for limit in (limits.tokens_per_minute, limits.tokens_per_day) if limit is not None]
        dollars = [limit for limit in (limits.dollars_per_minute, limits.dollars_per_day) if limit is not None]
        return replace(
            self,
            tokens=min([self.tokens, *tokens]),
            money=min([self.money, *(int(limit * BILLION) for limit in dollars)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One limit of a key, and how much of it is used."""

    counted: Counted
    span: Span
    limit: float
    used: float
    resets: float
    """The end of the window, in seconds since 1970."""

    @property
    def remaining(self) -> float:
        return max(0.0, self.limit - self.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Amounts that were counted before a request was sent to the model. `windows`: the beginnings of the windows in which they
    were counted."""

    key_id: str
    amounts: Amounts
    windows: Mapping[Span, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer to a request for a reservation. `reservation` is None if `exceeded` names limits."""

    allowances: tuple[Allowance, ...]
    """All limits of the key, with this request if it was admitted."""
    exceeded: tuple[Allowance, ...] = ()
    """Limits that the request would exceed."""
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUsage:
    """Use of a model by a key on one day (UTC)."""

    key_id: str
    day: str
    """`2026-11-24`."""
    model: str
    """Empty: requests that got no answer of a model, and calls of tools at the MCP door."""
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from the provider's prompt cache; `input_tokens` includes them."""
    money: int = 0
    """Billionths of a US dollar."""
    unpriced: int = 0
    """Requests to a model without a known price; their tokens are counted, their money is not."""
    estimated: int = 0
    """Requests whose tokens were estimated, because the answer did not report them."""


def cost(usage: Usage, prices: Prices) -> int:
    """Returns the cost of a model call in billionths of a US dollar."""
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.written_tokens)
    millionths = (
        fresh * prices.input
        + usage.cached_tokens * prices.cached
        + usage.written_tokens * prices.written
        + usage.output_tokens * prices.output
    )
    return round(millionths * 1_000)
