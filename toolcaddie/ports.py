"""Every socket a plugin may fill, on one page. Rooms meet here and nowhere else: they implement, the runtime hands in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from toolcaddie.capabilities import Capabilities
from toolcaddie.catalog import Catalog, Category, Mask, View
from toolcaddie.events import RunEvent
from toolcaddie.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.run import (
    Budget,
    Classification,
    Decision,
    DeliveredTool,
    Delivery,
    Principal,
    RunContext,
    SelectedTool,
    Selection,
)
from toolcaddie.tool_types import JsonObject, Tool, ToolCall, ToolResult


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from and who runs them. `revision` changes whenever `tools()` or `categories()` would.

    A source that ships with the product has an attribute `claims` besides: the reserved names that are its own.
    """

    @property
    def name(self) -> str: ...
    @property
    def revision(self) -> int: ...
    def tools(self) -> Sequence[Tool]: ...
    def categories(self) -> Sequence[Category]: ...
    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        """Run it. Arguments are checked already. A tool this source holds no longer answers with kind 'revoked'."""
        ...


class Provider(Protocol):
    """A model behind a wire. Raises `ProviderError`; cancelling either call closes the upstream request."""

    @property
    def name(self) -> str: ...
    async def complete(self, request: ModelRequest) -> ModelReply: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come; the last item is the whole reply."""
        ...

    async def models(self) -> Sequence[JsonObject]:
        """The models there are, as OpenAI's model objects."""
        ...

    async def close(self) -> None:
        """Close what is open. Asked again afterwards, a provider opens anew: `run_sync` closes behind every run."""
        ...


class RawResponse(Protocol):
    """An upstream's answer as it comes; `aiohttp.ClientResponse` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> Any:
        """Has `readany()`: the next bytes of the body as soon as there are any, none at its end."""
        ...

    def close(self) -> None: ...
    def release(self) -> Any: ...


@runtime_checkable
class Forwarder(Protocol):
    """A provider that can also hand a request on byte for byte."""

    async def forward(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        """`path` is below the provider's base address. Raises `ProviderError` only when there is no answer at all."""
        ...


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


class Embedder(Protocol):
    """Texts to vectors that are near each other where the meaning is. `name` says which model made them: vectors of different
    names are never compared, nor kept under one key."""

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Any:
        """float32 array, one row a text, each of length 1; a row of zeros: this text says nothing to the model. No I/O."""
        ...


@runtime_checkable
class RemoteEmbedder(Protocol):
    """An embedder that has to ask somebody. A selection does no I/O, so its vectors are fetched before.

    A process may ask from several event loops, one after the other or side by side (`Runtime.select` has its own), so what is
    opened belongs to the loop it was opened in, and `close` closes what the running loop opened.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int:
        """0: not known before the first answer."""
        ...

    async def fetch(self, texts: Sequence[str]) -> Any:
        """As `Embedder.embed`. Raises `ProviderError`."""
        ...

    async def close(self) -> None: ...


Classifier = Callable[[Sequence[Message], View], Awaitable[Sequence[str] | Classification]]
"""A first stage that names categories for a conversation; unknown names are dropped. A `Classification` also says what it cost
and whether it failed. What it has to close, `close()` closes, if there is one."""


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


class HeldPages(Protocol):
    """Where results that were cut can be read on."""

    async def page(self, handle: str, offset: int, limit: int, principal: Principal) -> ToolResult: ...


class Planner(Protocol):
    def plan(self, plan: DeliveryPlan) -> Delivery: ...


class Policy(Protocol):
    @property
    def version(self) -> str: ...
    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Which tools this principal may see; None: all."""
        ...

    async def decide(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], context: RunContext
    ) -> Decision: ...


class Approver(Protocol):
    async def approve(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], decision: Decision, context: RunContext
    ) -> bool | None:
        """True or False: decided now. None: not yet; the call stays pending and the run is put away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call on its way to its source, past every gate."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    seconds: float
    """The timeout that holds for it."""


CallNext = Callable[[Invocation], Awaitable[ToolResult]]


class Middleware(Protocol):
    """Around a call. The first of a list is the outermost."""

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult: ...


class EventSink(Protocol):
    async def emit(self, event: RunEvent) -> None: ...


class EventRecord(Struct, frozen=True, kw_only=True):
    """A row of the trail. `seq` counts within the run; `data` is JSON-compatible."""

    run_id: str
    seq: int
    at: float
    """Seconds since the epoch."""
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as a list shows it."""

    run_id: str
    started: float
    message: str
    status: str
    principal: str
    preset: str
    turns: int = 0
    rounds: int = 0
    seconds: float | None = None
    owner: int | None = None
    """The lease of the process that carries it on; None: nobody does."""


class EventLog(Protocol):
    """Durable, append-only. Raises `AuditError` when it cannot write."""

    def append(self, record: EventRecord) -> None:
        """Queue a row; rows are committed in groups, in order. Raises `AuditError` if an earlier write failed."""
        ...

    async def flush(self, run_id: str | None = None) -> None:
        """Return when all appended rows are on disk. Raises `AuditError` if those of `run_id` may not be written any more."""
        ...

    def withdraw(self, record: EventRecord) -> None:
        """Take back an appended row, because what it announces will not happen. A row that is on disk, or reaches it with a
        write that is under way, stays: whoever withdraws it appends one that says what became of it."""
        ...

    async def events(self, run_id: str) -> Sequence[EventRecord]: ...
    async def records(self, run_ids: Sequence[str], kinds: Sequence[str]) -> Sequence[EventRecord]:
        """Those of some kinds of many runs, of each run in the order written. Far cheaper than as many `events`."""
        ...

    async def runs(self, *, limit: int = 50) -> Sequence[RunSummary]:
        """Newest first."""
        ...


class Leases(Protocol):
    """Tells living processes from those that are gone. Each process owns a number that no other process ever had."""

    async def own(self) -> int:
        """The number of this process, taken on first use. After the lease was lost it is a new one."""
        ...

    async def holds(self, number: int) -> bool:
        """Whether the owner of that number is still living. Waits up to the lease's length, and some looks, to be sure.

        False only when the number can never write again: its open work is settled, and what it had claimed is free.
        """
        ...


class Documents(Protocol):
    """Small values under (kind, key): run states, what a conversation was sent, hidden parts of turns.

    With `owner`, a write happens only while that number holds its lease; otherwise it raises `StorageError`.
    """

    @property
    def leases(self) -> Leases:
        """The leases that `owner` refers to."""
        ...

    async def get(self, kind: str, key: str) -> bytes | None: ...
    async def get_many(self, kind: str, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Those there are, by key, in no order; a key asked for twice counts once. Far cheaper than as many `get`."""
        ...

    async def put(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        urgent: bool = True,
        owner: int | None = None,
    ) -> None:
        """Durable on return. Not `urgent`: it may wait a moment for others to be written with it."""
        ...

    async def swap(
        self,
        kind: str,
        key: str,
        value: bytes,
        *,
        before: bytes | None,
        ttl: float | None = None,
        owner: int | None = None,
    ) -> bool:
        """Put `value` only where `before` is what is there now (None: nothing). Of several at once one gets True."""
        ...

    async def put_many(self, kind: str, values: Mapping[str, bytes], *, ttl: float | None = None) -> None:
        """Durable on return, all of them or none. Far cheaper than as many `put`."""
        ...

    async def delete(self, kind: str, key: str, *, owner: int | None = None) -> bool:
        """Whether there was one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLevel:
    """What a `CacheStore` holds now, and what left it so far without being asked for anew."""

    entries: int = 0
    bytes: int = 0
    evicted: int = 0
    """Pushed out by others while still good."""
    expired: int = 0


class CacheStore(Protocol):
    """Values under a key for a while. What is here may be gone at any time; an expired value is never returned."""

    async def get(self, key: str) -> bytes | None: ...
    async def put(self, key: str, value: bytes, *, ttl: float) -> bool:
        """Keep it for `ttl` seconds, more than 0. False: it is too large to be kept."""
        ...

    @property
    def level(self) -> CacheLevel: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key of the gateway's own; the secret itself is never kept, only its hash."""

    id: str
    name: str
    principal: Principal
    created: float
    revoked: float | None = None
    last_used: float | None = None
    hint: str = ""
    """The first characters, so that a person can tell keys apart."""


class KeyStore(Protocol):
    async def add(self, name: str, principal: Principal) -> tuple[ApiKey, str]:
        """The new key and its secret, which is shown this once."""
        ...

    async def list(self) -> Sequence[ApiKey]: ...
    async def revoke(self, id_or_name: str) -> ApiKey:
        """Raises `RequestError` if there is none."""
        ...

    async def check(self, secret: str) -> ApiKey | None:
        """The live key of that secret; None: unknown or revoked. Constant time in the secret."""
        ...

    async def any(self) -> bool:
        """Whether a key was ever made, revoked ones included."""
        ...
