"""Deliveries of selected tools to the model, and the costs of the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.catalog import View
from toolcaddie.core.selection import Budget, Selection
from toolcaddie.core.tool import JsonObject, Tool


class DeliveredTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool sent in a conversation, in full or slim form."""

    name: str
    slim: bool = False


Strategy = Literal["direct", "masked", "native", "compact"]
"""Delivery of tools to a model. direct: the array itself; masked: a stable superset, of which some may be called; native: the
array, with later additions after the cached prefix by the provider's own means; compact: meta tools in place of all."""

AddedBy = Literal["array", "text", "reference"]
"""Place of later tools: at the end of the array, in the conversation as text (called through `execute_tool`), or in the
conversation by the provider's own means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOption:
    """One way to send the tools, as the planner priced it."""

    name: str
    """A short description."""
    strategy: Strategy
    tools: int
    tokens: int
    """Tokens of all definitions that the model sees in the next request."""
    rebilled: int = 0
    """Tokens of the conversation so far that are no longer read from the cache."""
    expected: float = 0.0
    """Expected cost of the tools until the conversation ends, in tokens of fresh input."""
    dollars: float | None = None
    """The same in US dollars; None: the price is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedBill:
    """Expected bill for the next request's input, in tokens by kind."""

    read: int = 0
    written: int = 0
    plain: int = 0
    dollars: float | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of a selection to the model: the tool array in its order."""

    strategy: Strategy
    definitions: tuple[JsonObject, ...]
    meta: tuple[str, ...]
    """Names of the meta tools in `definitions`."""
    tools: tuple[DeliveredTool, ...]
    """Catalog tools of the array in order, without deferred ones."""
    prefix_digest: str
    tokens: int
    tokens_all: int
    reused: bool = False
    """True: the array begins with the tools sent earlier in this conversation, so the provider's cached prefix is valid."""
    note: str = ""
    """The planner's choice and its reason, in a sentence."""
    deferred: frozenset[str] = frozenset()
    """Names in `definitions` that the model sees only after a message reveals them."""
    allowed: tuple[str, ...] | None = None
    """Names in `definitions` that may be called; None: all."""
    added: tuple[str, ...] = ()
    """Tools that a message must announce before the next answer."""
    added_by: AddedBy = "array"
    """Means of that announcement."""
    later_by: AddedBy = "array"
    """Means of announcing tools that join later, until costs are compared again."""
    options: tuple[DeliveryOption, ...] = ()
    """Options that were compared, the chosen one first."""
    bill: ExpectedBill | None = None


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of a run's first delivery for all its rounds, also those after a pause."""

    strategy: Strategy
    later_by: AddedBy
    tokens_all: int
    note: str = ""

    @classmethod
    def of(cls, delivery: Delivery) -> Settled:
        return cls(
            strategy=delivery.strategy,
            later_by=delivery.later_by,
            tokens_all=delivery.tokens_all,
            note=delivery.note,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPlan:
    """The input of a planner."""

    view: View
    selection: Selection
    delivered: Sequence[DeliveredTool]
    """Tools sent earlier in this conversation, in order; the cache may still contain them."""
    meta: Sequence[Tool]
    budget: Budget
    capabilities: Capabilities
    known: Sequence[str] = ()
    """Tools that messages of the conversation have announced after the array."""
    referenced: Sequence[str] = ()
    """The `known` tools that are deferred in the array until such a message."""
    pinned: Sequence[str] = ()
    """Tools named in the caller's choice or essential to it, which must be in the array."""
    allowed: Sequence[str] | None = None
    """Tools that could be called before, if the provider masks."""
    called: Sequence[str] = ()
    """Tools called recently in the conversation."""
    history: int = 0
    """Tokens after the array that the provider may have cached: system prompt and earlier messages."""
    fresh: int = 0
    """Tokens of the messages that it cannot have cached."""
    idle: float | None = None
    """Seconds since the conversation was last sent; None: unknown, assumed to be a moment."""
    rounds: int = 0
    """Model calls of the conversation so far."""
    lasting: bool = False
    """True: the conversation is stored, so it may continue after this run."""
