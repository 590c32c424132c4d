"""Middleware that answers a call with the cached result of an equal earlier call.

The policy decides about the call before the cache is read, and a call answered from the cache counts as a call of the run.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcaddie.core.errors import ConfigError, StorageError
from toolcaddie.core.schema import canonical_json, digest
from toolcaddie.core.storage import CacheLevel
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.ports import CacheStore, CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

DEFAULT_TTL = 300.0
"""Default number of seconds for which a result is cached."""

OTHERS = "(others)"
"""Name under which the calls of further tools are counted, because the number of names is not limited."""

_COUNTED_TOOLS = 1_000
"""The largest number of tools whose calls are counted by name."""

CacheKey = Callable[[str, Mapping[str, Any]], str]
"""Function from a tool's name and arguments to a text that is the same for equal calls."""

_CounterName = Literal["hits", "misses", "joined", "stored"]

_DECODER = msgspec.json.Decoder(ToolResult)


def default_key(tool_name: str, params: Mapping[str, Any]) -> str:
    """Returns `name:{...}` with the arguments as canonical JSON: nested values count, the order of keys does not."""
    return f"{tool_name}:{canonical_json(params).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCacheStatistics:
    """Calls of one tool that could be answered from the cache."""

    hits: int = 0
    misses: int = 0
    """Calls for which the tool ran."""
    joined: int = 0
    """Calls that waited for an equal call in progress and got the result of that call."""
    stored: int = 0
    """Results written to the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics(ToolCacheStatistics):
    """Calls of all tools since the cache was made, and how full its store is."""

    tools: Mapping[str, ToolCacheStatistics] = field(default_factory=dict)
    level: CacheLevel = CacheLevel()


class Cache:
    """Answers a call from the result of an equal one.

    ```python
    Cache(store)                               # tools with a cache_ttl of their own
    Cache(store, everything=True, ttl=60)      # and tools that only read, except open-world and polled ones
    Cache(store, everything=True, unmarked=True)   # and tools that do not say whether they only read
    Cache(store, key=lambda name, params: f"{name}:{params['id']}")
    ```
    Calls are equal when tenant, definition of the tool, injected arguments and `key(name, arguments)` are. Results of a tool
    with restrictions are shared within one bot and role only. Results of a tool that depends on the caller (`personal`), or
    whose author did not call it cacheable, are shared with no one else: they may differ from person to person. A `key` of
    your own cannot change any of this.

    Results that are cached only because of `everything` expire when a tool of the same source and tenant runs that may write:
    a result read before a write may be wrong after it. A tool's own `cache_ttl` always holds, because its author chose it.

    Only successful results without an effect are cached. Equal calls at the same time run the tool once. If that run fails,
    the others get the same failure instead of running one after another, and the next call runs the tool again; if it is
    cancelled, one of the others runs. A result that comes from another call's run has `ToolResult.cached`.

    Runs inside `Truncate`, because a cut result names a handle that only one caller may use, and around every layer that
    changes or repeats a call.
    """

    def __init__(
        self,
        store: CacheStore,
        *,
        everything: bool = False,
        unmarked: bool = False,
        ttl: float = DEFAULT_TTL,
        key: CacheKey = default_key,
    ) -> None:
        if not ttl > 0:
            raise ConfigError(f"the cache's ttl must be more than 0 seconds, not {ttl}")
        self._store = store
        self._everything = everything
        self._unmarked = unmarked
        self._ttl = ttl
        self._key = key
        # The loop is part of the key: `run_sync` makes one for every run, and a future belongs to one loop.
        self._flights: dict[tuple[int, str], _Flight] = {}
        self._counts: dict[str, Counter[str]] = {}

    @property
    def statistics(self) -> CacheStatistics:
        tools = {name: ToolCacheStatistics(**counts) for name, counts in self._counts.items()}
        total: Counter[str] = sum(self._counts.values(), Counter())
        return CacheStatistics(**total, tools=tools, level=self._store.level)

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        ttl = self._ttl_of(invocation.tool)
        key = None if ttl is None else await self._key_of(invocation)
        if ttl is None or key is None:
            return await self._run(invocation, call_next)
        flight_key = (id(asyncio.get_running_loop()), key)
        while (flight := self._flights.get(flight_key)) is not None:
            # Shielded: a waiter that is cancelled must not take the result from the others.
            outcome = await asyncio.shield(flight)
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                self._count(invocation, "joined")
                return replace(outcome, cached=True, tries=1)
        flight = self._flights[flight_key] = asyncio.get_running_loop().create_future()
        outcome = None
        try:
            outcome = await self._cached_result(key, invocation)
            if outcome is None:
                outcome = await self._run(invocation, call_next)
                if self._writes(invocation.tool):  # this run has begun a new era too
                    key = await self._key_of(invocation) or key
                await self._store_result(key, outcome, ttl, invocation)
            return outcome
        except Exception as error:
            outcome = error
            raise
        finally:
            # `outcome` is still None if this call was cancelled; then the first of the waiting calls runs.
            del self._flights[flight_key]
            flight.set_result(outcome)

    def _ttl_of(self, tool: Tool) -> float | None:
        """Returns the seconds for which a tool's results are cached; None: not at all."""
        if tool.cache_ttl is not None:
            return tool.cache_ttl if tool.cache_ttl > 0 else None
        reads = bool(tool.annotations.read_only) and not (tool.annotations.open_world or tool.polling)
        cacheable = reads or (self._unmarked and is_unmarked(tool))
        return self._ttl if self._everything and cacheable else None

    def _writes(self, tool: Tool) -> bool:
        """Returns True if a tool may write. A tool with a `cache_ttl` only reads: its author said so."""
        return self._everything and not tool.annotations.read_only and tool.cache_ttl is None

    async def _run(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        """Runs the tool. If it may write, a new era begins, so that results cached before are not used any more."""
        if not self._writes(invocation.tool):
            return await call_next(invocation)
        try:
            return await call_next(invocation)
        finally:  # after a failed call, too: it may have acted before it failed
            await self._begin_era(invocation)

    async def _begin_era(self, invocation: Invocation) -> None:
        """Begins a new era (the time between two writes) for the tenant and source of a call."""
        try:
            await self._store.put(_era_key(invocation), secrets.token_bytes(8), ttl=2 * self._ttl)
        except StorageError as error:
            log.warning("cache_not_written", tool=invocation.tool.name, error=str(error))

    async def _era(self, invocation: Invocation) -> str:
        """Returns the name of the current era, the time between two writes. Results cached in another era are not found."""
        try:
            return (await self._store.get(_era_key(invocation)) or b"").hex()
        except StorageError:
            return secrets.token_hex(8)  # unknown era: no cached result is trusted

    async def _key_of(self, invocation: Invocation) -> str | None:
        """Returns the cache key of a call; None: no key can be made, so the tool runs."""
        tool, context = invocation.tool, invocation.context
        principal = context.principal
        scope: list[str | None] = [principal.tenant]
        if tool.cache_ttl is None or tool.personal:
            scope += [principal.bot, principal.role, principal.id]
            scope += [] if tool.cache_ttl is not None else [await self._era(invocation)]
        elif tool.is_restricted or context.injected:
            scope += [principal.bot, principal.role]
        try:
            call = self._key(tool.name, invocation.arguments)
        except Exception:  # an error in the operator's function must not end the run
            log.warning("cache_key_failed", tool=tool.name, run_id=context.run_id, exc_info=True)
            return None
        try:
            return digest([scope, tool, context.injected, call])
        except (TypeError, ValueError, RecursionError):  # an injected object that has no JSON form
            return None

    async def _cached_result(self, key: str, invocation: Invocation) -> ToolResult | None:
        """Returns the cached result of a key; None: there is none, or it cannot be read."""
        try:
            value = await self._store.get(key)
            result = None if value is None else _DECODER.decode(value)
        except (StorageError, msgspec.MsgspecError) as error:
            log.warning("cache_not_read", tool=invocation.tool.name, error=str(error))
            result = None
        self._count(invocation, "misses" if result is None else "hits")
        if log.is_enabled_for("debug"):  # a line for each call would be too much at level info
            log.debug("cache_miss" if result is None else "cache_hit", tool=invocation.tool.name, key=key)
        return None if result is None else replace(result, cached=True, tries=1)

    async def _store_result(self, key: str, result: ToolResult, ttl: float, invocation: Invocation) -> None:
        """Stores a result for `ttl` seconds, unless it is an error or changes the run."""
        if result.is_error or result.effect is not None:
            return
        try:
            stored = await self._store.put(key, msgspec.json.encode(result), ttl=ttl)
        except (TypeError, ValueError, RecursionError) as error:  # half a surrogate pair, an object of the tool's own
            log.warning("result_not_cached", tool=invocation.tool.name, error=str(error))
        except StorageError as error:
            log.warning("cache_not_written", tool=invocation.tool.name, error=str(error))
        else:
            if stored:
                self._count(invocation, "stored")

    def _count(self, invocation: Invocation, counter: _CounterName) -> None:
        """Counts a call of a tool."""
        name = invocation.tool.name
        if name not in self._counts and len(self._counts) >= _COUNTED_TOOLS:
            name = OTHERS
        self._counts.setdefault(name, Counter())[counter] += 1


def is_unmarked(tool: Tool) -> bool:
    """Returns True if a tool does not say whether it only reads, and nothing else prevents caching of its results."""
    marks = tool.annotations
    return marks.read_only is None and not (tool.may_destroy or marks.open_world or tool.polling)


def _era_key(invocation: Invocation) -> str:
    return digest(["era", invocation.context.principal.tenant, invocation.tool.source])


_Flight = asyncio.Future[ToolResult | Exception | None]
"""The future of a call in progress, for which equal calls wait: a result or an error; None: the call was cancelled."""
