"""Costs of tools in a conversation whose prefix is in a provider's prompt cache. Pure arithmetic.

The unit is a token of fresh input, so prices enter as ratios only: a token read from the cache costs `read`, a token written
to it `write`, a token of an answer `output`. Tools come before system prompt and messages, so a changed array writes the
conversation behind it again, and tools behind the conversation do not.

The rest of a conversation is unknown when tools are chosen. The outlook is a rule of thumb: a conversation will have about as
many model calls as it has had, and a new topic every few calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.delivery import DeliveryPlan

_FIRST_ROUNDS = 12.0
"""Model calls expected of a stored conversation when it begins."""
_LONE_ROUNDS = 3.0
"""Model calls expected of a request whose conversation is not stored: a call, its result, an answer."""
_ROUNDS_A_TOPIC = 8.0
"""Model calls until a topic needs tools that were not chosen at first."""
_ADDED_A_TOPIC = 5.0
"""Tools that join with a new topic."""
_ROUND_TOKENS = 400.0
"""Tokens by which a conversation grows with a model call."""
_MISS = 0.15
"""Share of topics that need a tool which the model has to ask for."""
_NEEDED_LATER = 0.03
"""Share of the selected tools below the best that are needed after all."""
_ASKING_TOKENS = 60.0
"""Output tokens of a call that asks for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A provider's prices as ratios, and the rule of its cache."""

    read: float = 1.0
    write: float = 1.0
    output: float = 5.0
    minimum: int = 0
    """Shorter prefixes are not cached."""
    lifetime: float = 0.0
    """Seconds for which a prefix stays cached after its last use; 0: nothing is cached."""
    dollars: float | None = None
    """Price of a token of fresh input in US dollars; None: unknown."""

    @classmethod
    def of(cls, capabilities: Capabilities) -> Terms:
        prices, rule = capabilities.prices, capabilities.cache
        lifetime = 0.0 if rule.kind == "none" else rule.lifetime
        if prices is None or not prices.input:
            return cls(read=0.1 if lifetime else 1.0, minimum=rule.minimum, lifetime=lifetime)
        cached, written = (prices.cached, prices.written) if lifetime else (prices.input, prices.input)
        return cls(
            read=cached / prices.input,
            write=written / prices.input,
            output=prices.output / prices.input,
            minimum=rule.minimum,
            lifetime=lifetime,
            dollars=prices.input / 1_000_000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Expectations of the rest of a conversation, and costs that follow from them."""

    terms: Terms
    rounds: float
    """Model calls still to come, the next one included."""
    history: float
    """Tokens behind the array that may be cached."""

    @classmethod
    def of(cls, plan: DeliveryPlan, terms: Terms) -> Outlook:
        rounds = max(_FIRST_ROUNDS, float(plan.rounds)) if plan.lasting else _LONE_ROUNDS
        return cls(terms=terms, rounds=rounds, history=float(plan.history))

    def carried(self, tokens: float) -> float:
        """Returns the cost of tokens that are new in the next request and stay: written once, read in every call after it."""
        return tokens * (self.terms.write + self.terms.read * (self.rounds - 1))

    def rebilled(self, tokens: float) -> float:
        """Returns the extra cost of writing cached tokens again instead of reading them."""
        return max(0.0, tokens * (self.terms.write - self.terms.read))

    def later(self, size: float, *, behind: bool) -> float:
        """Returns the cost of tools that join an array with a part of the catalog until the conversation ends.

        Their definitions have `size` tokens on average and stand `behind` the conversation, or in the array before it. Calls
        in which the model asks for missing tools are included.
        """
        topics = self.rounds / _ROUNDS_A_TOPIC
        halfway = self.history + _ROUND_TOKENS * self.rounds / 2
        added = _ADDED_A_TOPIC * size * (self.terms.write + self.terms.read * self.rounds / 2)
        requests = _MISS * (self.terms.read * halfway + self.terms.output * _ASKING_TOKENS)
        return topics * (added + requests + (0.0 if behind else self.rebilled(halfway)))

    def omitted(self, count: int) -> float:
        """Returns the cost of the calls in which a model asks for selected tools that were not sent."""
        size = self.terms.read * (self.history + _ROUND_TOKENS * self.rounds / 4) + self.terms.output * _ASKING_TOKENS
        return count * _NEEDED_LATER * size

    def dollars(self, expected: float) -> float | None:
        return None if self.terms.dollars is None else expected * self.terms.dollars
