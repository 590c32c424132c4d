"""How chosen tools reach the model, and what the ways of sending them would cost."""

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
    """A tool the conversation was sent, in the form it was sent in."""

    name: str
    slim: bool = False


Strategy = Literal["direct", "masked", "native", "compact"]
"""How tools reach a model. direct: the array itself; masked: a stable superset, of which some may be called; native: the array,
and later additions behind the cached prefix by the provider's own means; compact: meta tools that stand for all."""

AddedBy = Literal["array", "text", "reference"]
"""Where later tools are put: at the end of the array, into the conversation as text (called through `execute_tool`), or
into the conversation by the provider's own means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOption:
    """One way to send the tools, as the planner priced it."""

    name: str
    """What it is, in a few words."""
    strategy: Strategy
    tools: int
    tokens: int
    """Of all definitions the model sees in the next request."""
    rebilled: int = 0
    """Tokens of the conversation so far that are no longer read from the cache."""
    expected: float = 0.0
    """What the tools cost until the conversation ends, in tokens of fresh input."""
    dollars: float | None = None
    """The same in US dollars, where the price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedBill:
    """What the next request's input is expected to be billed as, in tokens."""

    read: int = 0
    written: int = 0
    plain: int = 0
    dollars: float | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """How the selection reaches the model: the tool array in the order sent."""

    strategy: Strategy
    definitions: tuple[JsonObject, ...]
    meta: tuple[str, ...]
    """Names of the meta tools in `definitions`."""
    tools: tuple[DeliveredTool, ...]
    """The catalog tools of the array, in order; not those that are deferred."""
    prefix_digest: str
    tokens: int
    tokens_all: int
    reused: bool = False
    """The array begins with all that this conversation was sent before, so the provider's cached prefix holds."""
    note: str = ""
    """What the planner chose and why, in a sentence."""
    deferred: frozenset[str] = frozenset()
    """Names in `definitions` that the model does not see there, only where a message reveals them."""
    allowed: tuple[str, ...] | None = None
    """Of `definitions`, what may be called; None: all."""
    added: tuple[str, ...] = ()
    """Tools that a message has to make known before the next answer."""
    added_by: AddedBy = "array"
    """How it does that."""
    later_by: AddedBy = "array"
    """How tools are made known that join from here on, until prices are looked at again."""
    options: tuple[DeliveryOption, ...] = ()
    """What was weighed, the chosen one first."""
    bill: ExpectedBill | None = None


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What the first delivery of a run settled for all its rounds, also for those after a pause."""

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
    """What a planner is given."""

    view: View
    selection: Selection
    delivered: Sequence[DeliveredTool]
    """What this conversation was sent before, in order; the cache may still hold it."""
    meta: Sequence[Tool]
    budget: Budget
    capabilities: Capabilities
    known: Sequence[str] = ()
    """What messages of the conversation have made known behind the array."""
    referenced: Sequence[str] = ()
    """Of these, what is held back in the array until such a message."""
    pinned: Sequence[str] = ()
    """What the caller's choice names, and what it cannot do without: these must stand in the array."""
    allowed: Sequence[str] | None = None
    """What could be called before, where the provider masks."""
    called: Sequence[str] = ()
    """Tools called lately in the conversation."""
    settled: Settled | None = None
    """What the first round of the run chose: strategy and way stay, and only the state's own tools are sent."""
    under_way: bool = False
    """A round of a run that goes on, also where what an earlier one chose was not kept (the run was put away)."""
    history: int = 0
    """Tokens behind the array that the provider may have cached: system prompt and earlier messages."""
    fresh: int = 0
    """Tokens of the messages it cannot have cached."""
    idle: float | None = None
    """Seconds since the conversation was last sent; None: not known, and taken for a moment."""
    rounds: int = 0
    """Model calls the conversation has had."""
    lasting: bool = False
    """The conversation is remembered, so it may go on after this run."""
