"""What tools cost in a conversation whose beginning a provider keeps in a prompt cache. Pure arithmetic.

The unit is a token of fresh input, so that prices enter as ratios only: what is read from the cache costs `read` a token,
what is written to it `write`, an answer `output`. Tools stand before system prompt and messages; a changed array therefore
writes the conversation behind it anew, and whatever is put behind the conversation does not.

What a conversation will still bring is not known when tools are chosen. The outlook is a rule of thumb: a conversation that
had so many model calls will have about as many again, and begins anew with a topic every few of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.delivery import DeliveryPlan

_FIRST_ROUNDS = 12.0
"""Model calls that a remembered conversation is expected to have when it begins."""
_LONE_ROUNDS = 3.0
"""Of a request that nobody remembers: a call, its result, an answer."""
_ROUNDS_A_TOPIC = 8.0
"""Model calls until tools are needed that were not chosen at first."""
_ADDED_A_TOPIC = 5.0
"""Tools that join then."""
_ROUND_TOKENS = 400.0
"""What a conversation grows by with a model call."""
_MISS = 0.15
"""How often a topic needs a tool that the model has to ask for."""
_WANTED_LATER = 0.03
"""How often a tool is needed after all that was chosen, but not among the best."""
_ASKING_TOKENS = 60.0
"""Output of a call that asks for tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A provider's prices as ratios, and the rule of its cache."""

    read: float = 1.0
    write: float = 1.0
    output: float = 5.0
    minimum: int = 0
    """Shorter prefixes are not cached."""
    lifetime: float = 0.0
    """Seconds a prefix is kept after its last use; 0: nothing is cached."""
    dollars: float | None = None
    """Of a token of fresh input."""

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
    """What a conversation is expected to bring from here on."""

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
        """What tokens cost that are new in the next request and stay: written once, read in every call after it."""
        return tokens * (self.terms.write + self.terms.read * (self.rounds - 1))

    def rebilled(self, tokens: float) -> float:
        """What it costs more to write cached tokens anew than to read them."""
        return max(0.0, tokens * (self.terms.write - self.terms.read))

    def later(self, size: float, *, behind: bool) -> float:
        """What joins until the end, for an array that holds a part of the catalog: definitions of `size` tokens on average,
        put `behind` the conversation, or into the array before it; and the calls in which a model asks for what is missing."""
        topics = self.rounds / _ROUNDS_A_TOPIC
        halfway = self.history + _ROUND_TOKENS * self.rounds / 2
        added = _ADDED_A_TOPIC * size * (self.terms.write + self.terms.read * self.rounds / 2)
        asked = _MISS * (self.terms.read * halfway + self.terms.output * _ASKING_TOKENS)
        return topics * (added + asked + (0.0 if behind else self.rebilled(halfway)))

    def asked(self, left_out: int) -> float:
        """What it costs that a model has to ask for tools that were chosen and not sent."""
        size = self.terms.read * (self.history + _ROUND_TOKENS * self.rounds / 4) + self.terms.output * _ASKING_TOKENS
        return left_out * _WANTED_LATER * size

    def dollars(self, expected: float) -> float | None:
        return None if self.terms.dollars is None else expected * self.terms.dollars
