"""Values of delivery: the way in which selected tools are sent to the model, the input of a planner (`ports.Planner`), and the
expected costs of its options."""

from __future__ import annotations

from collections.abc import Sequence
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


Strategy = Literal["direct", "masked", "native", "compact", "program"]
"""Ways to deliver tools to a model. direct: the array of the selected tools; masked: an unchanging larger array, of which only
some tools may be called; native: an array to which the provider's own mechanism adds tools after the cached prefix; compact: meta
tools that search and call all other tools; program: any other way, and a meta tool with which the model writes programs that call
the tools."""

AddedBy = Literal["array", "text", "reference"]
"""Place of tools that are added during the conversation: at the end of the array (`array`), in the conversation as text, to be
called through `execute_tool` (`text`), or in the conversation by the provider's own mechanism (`reference`)."""


class DeliveryOption(msgspec.Struct, frozen=True, kw_only=True):
    """One way to send the tools, as the planner priced it."""

    name: str
    """A short description."""
    strategy: Strategy
    tools: int
    tokens: int
    """Tokens of all definitions that the model sees in the next request."""
    rebilled: int = 0
    """Tokens of the conversation so far that this option makes the provider bill in full, because they are no longer read from
    the cache."""
    expected: float = 0.0
    """Expected cost of the tools until the conversation ends, in tokens of fresh input."""
    dollars: float | None = None
    """The expected cost in US dollars; None: the price is unknown."""


class ExpectedBill(msgspec.Struct, frozen=True, kw_only=True):
    """Expected bill for the next request's input: tokens read from the cache, written to it, and billed without it."""

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
    """Tokens of the definitions that the model sees."""
    tokens_all: int
    """Tokens of the definitions of all visible tools, for comparison with those that are sent."""
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
    """The place where `added` is announced."""
    later_by: AddedBy = "array"
    """The place where tools that join later are announced, until costs are compared again."""
    options: tuple[DeliveryOption, ...] = ()
    """Options that were compared, the chosen one first."""
    bill: ExpectedBill | None = None


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a run's first delivery that hold for all its rounds, also after a pause: its decisions, and `tokens_all`, the
    tokens of the definitions of all visible tools."""

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


class DeliveryPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
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
    programs: Literal["keep", "weigh"] = "keep"
    """What happens to the meta tool for programs, if it is in `meta`: it is sent, or it is sent if it is expected to pay."""
    wrote_programs: bool = False
    """True if the conversation was sent that meta tool before."""
    pinned: Sequence[str] = ()
    """Tools that must be in the array: the tools in the caller's tool choice, and the essential tools."""
    allowed: Sequence[str] | None = None
    """Tools that the previous request allowed to be called, if the provider supports masks."""
    called: Sequence[str] = ()
    """Tools called recently in the conversation."""
    history: int = 0
    """Tokens after the array that the provider may have cached: system prompt and earlier messages."""
    fresh: int = 0
    """Tokens of the messages that the provider cannot have cached."""
    idle: float | None = None
    """Seconds since the conversation was last sent; None: unknown, treated as a moment ago."""
    rounds: int = 0
    """Model calls of the conversation so far."""
    lasting: bool = False
    """True: the conversation is stored, so it may continue after this run."""
