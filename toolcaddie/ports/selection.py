"""Sockets of choosing and delivering tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.catalog import Catalog, Mask, View
from toolcaddie.core.control import Principal
from toolcaddie.core.delivery import DeliveredTool, Delivery
from toolcaddie.core.message import Message
from toolcaddie.core.selection import Budget, SelectedTool, Selection
from toolcaddie.core.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionQuery:
    """What tools are wanted for.

    The words come from the window of `messages`, or are `text` alone (a reveal's query). `categories` given: no matching,
    these are taken. `exclude` holds names that are sent already.
    """

    messages: Sequence[Message] = ()
    text: str | None = None
    categories: Sequence[str] | None = None
    suggested: Sequence[str] = ()
    """Categories that a first stage named: each counts as if one of its keywords had just been said."""
    pinned: Sequence[str] = ()
    """Names chosen whatever they score (a tool the caller forces)."""
    essential: Mapping[str, str] = field(default_factory=dict)
    """Names always chosen, outside `max_tools`, each with its reason."""
    exclude: frozenset[str] = frozenset()
    fixed_count: int = 0
    """Places of the cap already taken (meta tools, earlier additions)."""
    fixed_tokens: int = 0
    expandable: bool = False
    """`request_more_tools` is offered: keep the budget's reserve free."""
    principal: Principal | None = None
    """Who asks, for what was learned of them; None: nobody in particular."""


class Selector(Protocol):
    """Finds the tools of a view that fit. Pure: no I/O, the same answer for the same input in every process."""

    def select(self, view: View, query: SelectionQuery, budget: Budget) -> Selection: ...
    def search(self, view: View, text: str, limit: int) -> Sequence[SelectedTool]:
        """The best matches for some words, best first; only tools that match at all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """A query as rankers read it: each message of the window by itself, newest first, with its weight."""

    messages: tuple[tuple[str, float], ...]
    """What the user said."""
    replies: tuple[tuple[str, float], ...] = ()
    """What the assistant said in between."""
    called: tuple[str, ...] = ()
    """Names of tools called lately."""
    principal: Principal | None = None
    """Who asks; None: nobody in particular."""


class Ranker(Protocol):
    """Scores every tool of one catalog. Made once per catalog; asked once per request.

    A ranker with an attribute `calibrated = True` gives scores from 0 to 1 that mean the same in every request. The scores of
    others are stretched so that their best tool has 1.

    A ranker that does not always have something to say may have a method `weight(words, mask) -> float`, asked after `scores`:
    what it counts in this request beside the mean of those that have none. 0: nothing. One with a method
    `blended(words, mask, scores, factor) -> scores` has the last word instead: it is given what all others came to, 0 to 1,
    and the operator's factor, and says what stands.

    Where a catalog follows another that differs in few tools, a ranker with a method `changed(change: CatalogChange) -> Ranker`
    is asked for the one of `change.after`, and may keep what it knows: the row of tool i was row `change.origin[i]` before, and
    `change.added` are to be worked out. The answer scores as one made anew would; the ranker itself stays as it is, because
    others still use it. Without the method the factory makes another: right as well, and slower.
    """

    @property
    def name(self) -> str: ...
    def scores(self, words: QueryWords, mask: Mask | None) -> Any:
        """float32 array, one score per catalog position; 0 means: nothing to say. Hidden positions are 0."""
        ...

    def reasons(self, words: QueryWords, positions: Sequence[int]) -> Sequence[tuple[str, ...]]:
        """Why each of these tools was scored as it was, in words for a person; asked right after `scores`."""
        ...


RankerFactory = Callable[[Catalog], Ranker]


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
    settled: Delivery | None = None
    """What an earlier round of the run chose: strategy and way stay, and only the state's own tools are sent."""
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


class Planner(Protocol):
    def plan(self, plan: DeliveryPlan) -> Delivery: ...
