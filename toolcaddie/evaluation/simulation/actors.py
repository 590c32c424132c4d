"""The model and the tools of simulated conversations (`toolcaddie eval costs`), and the clock that both advance.

The model follows a script and behaves the same under every strategy of sending tools. It calls a needed tool if the request
contains the tool. If not, it asks for more tools, or searches with the meta tools where the request contains only these. If
none of that leads to the tool, it answers without it, which is a miss.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, RUN_PROGRAM, SEARCH_TOOLS
from toolcaddie.core.run import RunContext
from toolcaddie.core.schema import estimate_tokens
from toolcaddie.core.tool import JsonObject, Tool, ToolCall, ToolResult
from toolcaddie.core.usage import Usage
from toolcaddie.engine.programs.functions import function_name
from toolcaddie.evaluation.simulation.billing import Bill, PriceRule, Prompt, PromptCache, Renderer, definition_name
from toolcaddie.evaluation.simulation.scripts import Need, Turn

_SECONDS_TO_BEGIN = 1.0
"""Simulated time until the first token of an answer."""
_TOKENS_A_SECOND = 60.0
"""Simulated speed of an answer."""
_SECONDS_A_TOOL = 0.5
"""Simulated duration of a call of a tool."""

_MOST_QUERIES = 2
"""Largest number of times that the model asks for more tools for one need; also the largest number of searches for one need. The
first query has the words of the request, the second one other words."""

_FEWEST = 2
"""Smallest number of calls for which the model writes a program."""
_PRINTED_SHARE = 5
"""A program prints one part of so many of each result, as it picks the fields and rows that the answer needs."""
_PRINTED_LEAST = 200
"""Number of characters that a program prints of a result in any case."""


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
    """One request to the model, with the figures from which it is billed."""

    prompt: Prompt
    at: float
    """Time of the request, in seconds."""
    turn: int
    """Number of the turn."""
    output: int
    """Tokens of the answer."""
    marked: bool
    """True if the request asked the provider to cache its prefix."""
    after_reveal: bool
    """True if the model asked for more tools earlier in the same turn."""


@dataclass(slots=True, kw_only=True)
class _Progress:
    """The needs of one turn, and which of them are settled. A need is a call that the turn requires."""

    turn: Turn
    number: int
    served: set[str] = field(default_factory=set)
    """Needed tools that were called."""
    given_up: set[str] = field(default_factory=set)
    """Needed tools that the model cannot reach."""
    queries: dict[str, int] = field(default_factory=dict)
    """Number of requests for more tools, by needed tool."""
    searches: dict[str, int] = field(default_factory=dict)
    """Number of searches, by needed tool."""
    revealed: bool = False
    """True if the model asked for more tools in this turn."""

    def step(self) -> list[Need]:
        """Returns the needs that are not settled, of the first step that has such needs."""
        settled = self.served | self.given_up
        return next((needs for step in self.turn.steps if (needs := [n for n in step if n.tool not in settled])), [])


class ScriptedTools:
    """A source (`ports.ToolSource`) with the tools of a catalog. A call returns the result that the script has for the tool."""

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
    """A provider (`ports.Provider`) whose model follows a script.

    Call `begin` for each conversation, and `begin_turn` and `end_turn` for each turn. `requests` and `misses` then hold the
    outcome. `rule`: price rule, from which the provider's name and the number of cached tokens follow. None: nothing is cached.
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
        """Answers a request by the script, records the request, and advances the clock by the time that the answer takes."""
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
        """Returns the usage that the provider would report, with the cached tokens by the price rule."""
        bill = Bill() if self._cache is None else self._cache.bill(rendered.prompt, rendered.at, marked=rendered.marked)
        return Usage(
            input_tokens=rendered.prompt.tokens,
            output_tokens=rendered.output,
            cached_tokens=bill.read,
            written_tokens=bill.written,
        )

    # --- the model's decisions ---------------------------------------------------------------------------------------

    def _calls_of(self, request: ModelRequest) -> Iterator[ToolCall]:
        """Yields the calls of one answer: for each need of the next step, a call of the needed tool or a call that leads to it.

        A need that no call leads to is given up; if all needs of a step are, the next step follows. If no call is left, the model
        answers in text.
        """
        names = self._names.callable_names(request)
        if RUN_PROGRAM in names and (code := self._program(names, request)):
            yield _call(f"call_{len(self.requests)}_1", RUN_PROGRAM, msgspec.json.encode({"code": code}).decode())
            return
        count = 0
        while not count and (step := self._progress.step()):
            for need in step:
                call = self._next_call(need, names, request)
                if call is None:
                    self._progress.given_up.add(need.tool)
                    continue
                count += 1
                yield _call(f"call_{len(self.requests)}_{count}", *call)

    def _program(self, names: frozenset[str], request: ModelRequest) -> str:
        """Returns a program that serves all needs of the turn that are left, if there are several and the model knows the tools
        of all; otherwise an empty text."""
        progress = self._progress
        settled = progress.served | progress.given_up
        steps = [left for step in progress.turn.steps if (left := [need for need in step if need.tool not in settled])]
        needs = [need for step in steps for need in step]
        if len(needs) < _FEWEST or not all(
            need.tool in names or self._described(need.tool, request.messages) for need in needs
        ):
            return ""
        progress.served.update(need.tool for need in needs)
        return program_of(steps)

    def _next_call(self, need: Need, names: frozenset[str], request: ModelRequest) -> tuple[str, str] | None:
        """Returns name and arguments of a call that serves the need or leads to the needed tool; None: there is no such call."""
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
        """Returns True if a message contains the tool's name and all its parameters, so that the model can call the tool."""
        tool = self._catalog.get(name)
        properties = () if tool is None else tuple(tool.input_schema.get("properties", ()))
        return any(all(f'"{parameter}"' in text for parameter in properties) for text in _mentions_of(name, messages))


def _mentions_of(name: str, messages: Sequence[Message]) -> Iterator[str]:
    """Returns the texts that contain the name as a word, except the model's own."""
    texts = (message.text for message in messages if message.role != "assistant")
    return (text for text in texts if name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def program_of(steps: Sequence[Sequence[Need]]) -> str:
    """Returns a program that makes the calls of each step together, and prints a part of each result."""
    lines = ["import asyncio"]
    for step in steps:
        calls = [f"{function_name(need.tool)}(**{msgspec.json.decode(need.arguments)!r})" for need in step]
        lines.append(f"for text in await asyncio.gather({', '.join(calls)}):")
        lines.append(f"    print(text[:max({_PRINTED_LEAST}, len(text) // {_PRINTED_SHARE})])")
    return "\n".join(lines)


def _next_query(need: Need, queries: dict[str, int]) -> str:
    """Returns the model's next query for a need, and counts it; an empty text after `_MOST_QUERIES`."""
    number = queries[need.tool] = queries.get(need.tool, 0) + 1
    return (need.words, need.guess)[number - 1] if number <= _MOST_QUERIES else ""


def _call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


class _Names:
    """Reads the names in the tool array of a request. If the next request has the same array object, it is not read again."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[JsonObject], frozenset[str]] = ((), frozenset())

    def callable_names(self, request: ModelRequest) -> frozenset[str]:
        """Returns the names that the model may call: allowed tools that are not deferred, or were revealed since."""
        if request.tool_choice == "none":
            return frozenset()
        if self._last[0] is not request.tools:
            self._last = request.tools, frozenset(map(definition_name, request.tools))
        names = self._last[1]
        if request.deferred:
            revealed = {name for message in request.messages for name in message.revealed}
            names = names - (request.deferred - revealed)
        return names if request.allowed is None else names & set(request.allowed)
