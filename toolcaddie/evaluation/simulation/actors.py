"""A model that follows a script, the tools it calls, and the clock of both.

The model behaves the same under every strategy. It calls a needed tool if it is sent that tool, asks for more tools if it may,
and searches with the meta tools in compact mode. Otherwise it answers without the tool, which is a miss.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest, Usage
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import estimate_tokens
from toolcaddie.core.tool import JsonObject, Tool, ToolCall, ToolResult
from toolcaddie.evaluation.simulation.billing import Bill, PriceRule, Prompt, PromptCache, Renderer, definition_name
from toolcaddie.evaluation.simulation.scripts import Need, Turn

_SECONDS_TO_BEGIN = 1.0
_TOKENS_A_SECOND = 60.0
_SECONDS_A_TOOL = 0.5

_MOST_QUERIES = 2
"""Most requests for more tools per need, and most searches: first with the words of the request, then with others."""


class Clock:
    """A clock that moves only by `advance`."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedRequest:
    """One request to the model, as it was rendered."""

    prompt: Prompt
    at: float
    turn: int
    output: int
    """Tokens of the answer."""
    marked: bool
    """True if the request marked its prefix for caching."""
    after_reveal: bool
    """True if the model asked for more tools earlier in the same turn."""


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Progress of a turn's needs."""

    turn: Turn
    number: int
    served: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    queries: dict[str, int] = field(default_factory=dict)
    searches: dict[str, int] = field(default_factory=dict)
    revealed: bool = False

    def step(self) -> list[Need]:
        """Returns the open needs of the first step that has some."""
        settled = self.served | self.given_up
        return next((needs for step in self.turn.steps if (needs := [n for n in step if n.tool not in settled])), [])


class ScriptedTools:
    """A `ToolSource` of a catalog's tools; they return the results of the script."""

    name = "scripted"
    revision = 1

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self.catalog = catalog
        self.results: Mapping[str, str] = {}
        """Results of the current turn, by tool."""
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        return self.catalog.tools

    def categories(self) -> Sequence[Category]:
        return self.catalog.categories

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self._clock.advance(_SECONDS_A_TOOL)
        return ToolResult(content=self.results.get(tool.name, "{}"))


class ScriptedModel:
    """A `Provider`. Call `begin`, then `begin_turn` and `end_turn` for each turn; `requests` and `misses` hold the outcome.

    `rule`: gives the provider's name and the cached tokens in the usage of its answers; None: no such name, nothing cached.
    """

    def __init__(self, catalog: Catalog, clock: Clock, rule: PriceRule | None = None) -> None:
        self.name = "scripted" if rule is None else rule.model.partition(":")[0]
        self._catalog, self._clock, self._rule = catalog, clock, rule
        self._renderer = Renderer()
        self._names = _Names()
        self.begin()

    def begin(self) -> None:
        """Begins a new conversation with an empty cache."""
        self.requests: list[RenderedRequest] = []
        self.misses = 0
        self._renderer.clear()
        self._cache = None if self._rule is None else PromptCache(self._rule)
        self._progress = _Progress(turn=Turn(text="", gap=0.0, steps=(), answer=""), number=-1)

    def begin_turn(self, turn: Turn, number: int) -> None:
        self._progress = _Progress(turn=turn, number=number)

    def end_turn(self) -> None:
        """Counts the needed tools that were not called."""
        self.misses += sum(need.tool not in self._progress.served for need in self._progress.turn.needs)

    async def complete(self, request: ModelRequest) -> ModelReply:
        after_reveal = self._progress.revealed
        calls = tuple(self._calls_of(request))
        text = None if calls else self._progress.turn.answer
        output = estimate_tokens(text or "") + sum(estimate_tokens(f"{c.name}{c.arguments}") for c in calls)
        rendered = RenderedRequest(
            prompt=self._renderer.render(request),
            at=self._clock(),
            turn=self._progress.number,
            output=output,
            marked=request.cache,
            after_reveal=after_reveal,
        )
        self.requests.append(rendered)
        self._clock.advance(_SECONDS_TO_BEGIN + output / _TOKENS_A_SECOND)
        return ModelReply(
            message=Message(role="assistant", content=text, tool_calls=calls),
            finish_reason="tool_calls" if calls else "stop",
            usage=self._usage(rendered),
            model=request.model,
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        yield await self.complete(request)

    async def models(self) -> Sequence[JsonObject]:
        return []

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _usage(self, rendered: RenderedRequest) -> Usage:
        bill = Bill() if self._cache is None else self._cache.bill(rendered.prompt, rendered.at, marked=rendered.marked)
        return Usage(
            input_tokens=rendered.prompt.tokens,
            output_tokens=rendered.output,
            cached_tokens=bill.read,
            written_tokens=bill.written,
        )

    # --- the model's decisions ---------------------------------------------------------------------------------------

    def _calls_of(self, request: ModelRequest) -> Iterator[ToolCall]:
        """Yields the calls of one answer: for each need of the next step the tool, or a call that leads to it.

        No call: the model answers. Needs that no call leads to are given up, and the next step is tried.
        """
        names = self._names.callable_names(request)
        count = 0
        while not count and (step := self._progress.step()):
            for need in step:
                call = self._next_call(need, names, request)
                if call is None:
                    self._progress.given_up.add(need.tool)
                    continue
                count += 1
                yield _call(f"call_{len(self.requests)}_{count}", *call)

    def _next_call(self, need: Need, names: frozenset[str], request: ModelRequest) -> tuple[str, str] | None:
        """Returns name and arguments of the call that serves a need or leads to it; None if there is none."""
        progress = self._progress
        if need.tool in names:
            progress.served.add(need.tool)
            return need.tool, need.arguments
        runs_any = EXECUTE_TOOL in names
        if runs_any and self._described(need.tool, request.messages):
            progress.served.add(need.tool)
            inner = {"tool_name": need.tool, "arguments": msgspec.json.decode(need.arguments)}
            return EXECUTE_TOOL, msgspec.json.encode(inner).decode()
        if REQUEST_MORE_TOOLS in names and (words := _next_query(need, progress.queries)):
            progress.revealed = True
            return REQUEST_MORE_TOOLS, msgspec.json.encode({"query": words}).decode()
        if runs_any and GET_TOOL_SCHEMA in names and any(_mentions_of(need.tool, request.messages)):
            return GET_TOOL_SCHEMA, msgspec.json.encode({"tool_name": need.tool}).decode()
        if runs_any and SEARCH_TOOLS in names and (words := _next_query(need, progress.searches)):
            return SEARCH_TOOLS, msgspec.json.encode({"query": words}).decode()
        return None

    def _described(self, name: str, messages: Sequence[Message]) -> bool:
        """True if a message contains the tool's name and all its parameters, so that the model could call it."""
        tool = self._catalog.get(name)
        properties = () if tool is None else tuple(tool.input_schema.get("properties", ()))
        return any(all(f'"{parameter}"' in text for parameter in properties) for text in _mentions_of(name, messages))


def _mentions_of(name: str, messages: Sequence[Message]) -> Iterator[str]:
    """Returns the texts sent to the model that contain the name as a word."""
    texts = (message.text for message in messages if message.role != "assistant")
    return (text for text in texts if name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def _next_query(need: Need, queries: dict[str, int]) -> str:
    """Returns the model's next query; empty after `_MOST_QUERIES`."""
    number = queries[need.tool] = queries.get(need.tool, 0) + 1
    return (need.words, need.guess)[number - 1] if number <= _MOST_QUERIES else ""


def _call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


class _Names:
    """The names in tool arrays; each array is read once, by identity."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[JsonObject], frozenset[str]] = ((), frozenset())

    def callable_names(self, request: ModelRequest) -> frozenset[str]:
        """Returns the names that may be called: not deferred or since revealed, and allowed."""
        if request.tool_choice == "none":
            return frozenset()
        if self._last[0] is not request.tools:
            self._last = request.tools, frozenset(map(definition_name, request.tools))
        names = self._last[1]
        if request.deferred:
            revealed = {name for message in request.messages for name in message.revealed}
            names = names - (request.deferred - revealed)
        return names if request.allowed is None else names & set(request.allowed)
