"""Estimates the cost of tools in a conversation whose beginning is in a provider's prompt cache. Pure arithmetic.

The unit is the price of a token of fresh input, so only ratios of prices matter: a token that is read from the cache costs
`read`, a token that is written to the cache costs `write`, a token of an answer costs `output`. The array of tools comes before
the system prompt and the messages. If the array changes, the whole conversation after it is therefore written to the cache again;
tools that are added behind the conversation cause no such cost.

The rest of a conversation is unknown when tools are chosen. The outlook is a rule of thumb: a conversation will have about as
many model calls as it has had, and a new topic every few calls.
"""

from __future__ import annotations

import msgspec

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.delivery import DeliveryPlan

_FIRST_ROUNDS = 12.0
"""The number of model calls that is expected of a stored conversation when it begins."""
_LONE_ROUNDS = 3.0
"""The number of model calls that is expected of a request whose conversation is not stored."""
_ROUNDS_A_TOPIC = 8.0
"""The number of model calls after which a new topic needs tools that were not chosen at first."""
_ADDED_A_TOPIC = 5.0
"""The number of tools that are added for a new topic."""
_ROUND_TOKENS = 400.0
"""Tokens by which a model call makes a conversation longer."""
_MISS = 0.15
"""Share of topics that need a tool which the model has to ask for."""
_NEEDED_LATER = 0.03
"""Share of the selected but omitted tools that the model later needs after all."""
_PROGRAM_ROUNDS = 0.05
"""Share of the model calls that programs save."""
_PROGRAM_RESULTS = 60.0
"""Tokens of results that programs keep out of the conversation, for each model call."""
_ASKING_TOKENS = 60.0
"""Output tokens of a call in which the model asks for tools."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's prices as ratios to the price of fresh input, and the rule of its cache."""

    read: float = 1.0
    """Price of a token that is read from the cache."""
    write: float = 1.0
    """Price of a token that is written to the cache."""
    output: float = 5.0
    """Price of a token of an answer."""
    minimum: int = 0
    """The least number of tokens of a prefix that is cached."""
    lifetime: float = 0.0
    """Seconds for which a prefix stays cached after its last use; 0: nothing is cached."""
    dollars: float | None = None
    """Price of a token of fresh input in US dollars; None: unknown."""

    @classmethod
    def of(cls, capabilities: Capabilities) -> Terms:
        """Returns the terms of a model. If its prices are unknown, reading from the cache is assumed to cost a tenth of fresh
        input."""
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


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Expectations of the rest of a conversation, and the costs that follow from them."""

    terms: Terms
    rounds: float
    """The number of model calls still to come, including the next one."""
    history: float
    """Tokens of the system prompt and the conversation after the array that the provider may have cached."""

    @classmethod
    def of(cls, plan: DeliveryPlan, terms: Terms) -> Outlook:
        rounds = max(_FIRST_ROUNDS, float(plan.rounds)) if plan.lasting else _LONE_ROUNDS
        return cls(terms=terms, rounds=rounds, history=float(plan.history))

    def carried(self, tokens: float) -> float:
        """Returns the cost of tokens that are new in the next request and then stay: they are written to the cache once, and read
        in every later call."""
        return tokens * (self.terms.write + self.terms.read * (self.rounds - 1))

    def rebilled(self, tokens: float) -> float:
        """Returns the extra cost of writing cached tokens again instead of reading them."""
        return max(0.0, tokens * (self.terms.write - self.terms.read))

    def later(self, size: float, *, behind: bool) -> float:
        """Returns the cost of the tools that will be added until the conversation ends, if it begins with a part of the catalog.

        A definition has `size` tokens on average. The tools are added `behind` the conversation, or to the array before it. The
        cost of calls in which the model asks for missing tools is included.
        """
        topics = self.rounds / _ROUNDS_A_TOPIC
        halfway = self.history + _ROUND_TOKENS * self.rounds / 2
        added = _ADDED_A_TOPIC * size * (self.terms.write + self.terms.read * self.rounds / 2)
        requests = _MISS * (self.terms.read * halfway + self.terms.output * _ASKING_TOKENS)
        return topics * (added + requests + (0.0 if behind else self.rebilled(halfway)))

    def omitted(self, count: int) -> float:
        """Returns the cost of the calls in which the model asks for some of `count` tools that were selected but not sent."""
        size = self.terms.read * (self.history + _ROUND_TOKENS * self.rounds / 4) + self.terms.output * _ASKING_TOKENS
        return count * _NEEDED_LATER * size

    def saved_by_programs(self, array: int) -> float:
        """Returns what the conversation costs less if the model may write programs: the model calls that they save, which would
        read the `array` and the conversation again, and the results that never enter the conversation."""
        halfway = self.history + _ROUND_TOKENS * self.rounds / 2
        calls = (
            _PROGRAM_ROUNDS * self.rounds * (self.terms.read * (array + halfway) + self.terms.output * _ASKING_TOKENS)
        )
        results = _PROGRAM_RESULTS * self.rounds * (self.terms.write + self.terms.read * self.rounds / 2)
        return calls + results

    def dollars(self, expected: float) -> float | None:
        """Returns a cost in US dollars; None: the prices are unknown."""
        return None if self.terms.dollars is None else expected * self.terms.dollars
