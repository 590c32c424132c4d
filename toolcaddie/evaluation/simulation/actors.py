"""A model that follows a script, the tools it calls, and the clock they live by.

The model is the script's, whatever a strategy sends it: it calls what it needs if it is shown that, asks for more where it may,
looks for it through the meta tools where those stand for everything, and otherwise answers without, which is a miss.
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

_ASKS = 2
"""Times a model asks for more tools for one need, and times it searches: first in the words of the request, then in others."""


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request to the model, as it was rendered."""

    prompt: Prompt
    at: float
    turn: int
    output: int
    """Tokens of the answer."""
    marked: bool
    """The request asked for its prefix to be kept."""
    after_reveal: bool
    """More tools were asked for earlier in the same turn."""


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Progress of a turn's needs."""

    turn: Turn
    number: int
    served: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    asked: dict[str, int] = field(default_factory=dict)
    searched: dict[str, int] = field(default_factory=dict)
    revealed: bool = False

    def step(self) -> list[Need]:
        """The next need."""
        done = self.served | self.given_up
        return next((left for step in self.turn.steps if (left := [n for n in step if n.tool not in done])), [])


class ScriptedTools:
    """A `ToolSource` of a catalog's tools that give what the script says."""

    name = "scripted"
    revision = 1

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self.catalog = catalog
        self.results: Mapping[str, str] = {}
        """By tool, of the turn under way."""
        self._clock = clock

    def tools(self) -> Sequence[Tool]:
        return self.catalog.tools

    def categories(self) -> Sequence[Category]:
        return self.catalog.categories

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self._clock.advance(_SECONDS_A_TOOL)
        return ToolResult(content=self.results.get(tool.name, "{}"))


class ScriptedModel:
    """A `Provider`. `begin` a conversation, then each of its turns; `sent` and `misses` say what came of it.

    `rule`: whose model it plays, by name, and what the usage of its answers says of the cache; None: nobody's, and nothing.
    """

    def __init__(self, catalog: Catalog, clock: Clock, rule: PriceRule | None = None) -> None:
        self.name = "scripted" if rule is None else rule.model.partition(":")[0]
        self._catalog, self._clock, self._rule = catalog, clock, rule
        self._renderer = Renderer()
        self._names = _Names()
        self.begin()

    def begin(self) -> None:
        """A new conversation: nothing is cached."""
        self.sent: list[Sent] = []
        self.misses = 0
        self._renderer.clear()
        self._cache = None if self._rule is None else PromptCache(self._rule)
        self._progress = _Progress(turn=Turn(text="", gap=0.0, steps=(), answer=""), number=-1)

    def begin_turn(self, turn: Turn, number: int) -> None:
        self._progress = _Progress(turn=turn, number=number)

    def end_turn(self) -> None:
        """Count what was needed and not called."""
        self.misses += sum(need.tool not in self._progress.served for need in self._progress.turn.needs)

    async def complete(self, request: ModelRequest) -> ModelReply:
        after_reveal = self._progress.revealed
        calls = tuple(self._calls(request))
        text = None if calls else self._progress.turn.answer
        output = estimate_tokens(text or "") + sum(estimate_tokens(f"{c.name}{c.arguments}") for c in calls)
        sent = Sent(
            prompt=self._renderer.render(request),
            at=self._clock(),
            turn=self._progress.number,
            output=output,
            marked=request.cache,
            after_reveal=after_reveal,
        )
        self.sent.append(sent)
        self._clock.advance(_SECONDS_TO_BEGIN + output / _TOKENS_A_SECOND)
        return ModelReply(
            message=Message(role="assistant", content=text, tool_calls=calls),
            finish_reason="tool_calls" if calls else "stop",
            usage=self._usage(sent),
            model=request.model,
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        yield await self.complete(request)

    async def models(self) -> Sequence[JsonObject]:
        return []

    async def close(self) -> None:
        """There is nothing to close."""

    def _usage(self, sent: Sent) -> Usage:
        bill = Bill() if self._cache is None else self._cache.bill(sent.prompt, sent.at, marked=sent.marked)
        return Usage(
            input_tokens=sent.prompt.tokens,
            output_tokens=sent.output,
            cached_tokens=bill.read,
            written_tokens=bill.written,
        )

    # --- what the model does -----------------------------------------------------------------------------------------

    def _calls(self, request: ModelRequest) -> Iterator[ToolCall]:
        """The calls of one answer: what it can call of the next step, and whatever brings it nearer to the rest. None: it
        answers. Needs that nothing leads to are given up, and the step after them is looked at."""
        shown = self._names.shown(request)
        count = 0
        while not count and (step := self._progress.step()):
            for need in step:
                doing = self._doing(need, shown, request)
                if doing is None:
                    self._progress.given_up.add(need.tool)
                    continue
                count += 1
                yield _call(f"call_{len(self.sent)}_{count}", *doing)

    def _doing(self, need: Need, shown: frozenset[str], request: ModelRequest) -> tuple[str, str] | None:
        """Name and arguments of the call that serves a need or leads to it; None: nothing does."""
        progress = self._progress
        if need.tool in shown:
            progress.served.add(need.tool)
            return need.tool, need.arguments
        runs_any = EXECUTE_TOOL in shown
        if runs_any and self._described(need.tool, request.messages):
            progress.served.add(need.tool)
            inner = {"tool_name": need.tool, "arguments": msgspec.json.decode(need.arguments)}
            return EXECUTE_TOOL, msgspec.json.encode(inner).decode()
        if REQUEST_MORE_TOOLS in shown and (words := _words(need, progress.asked)):
            progress.revealed = True
            return REQUEST_MORE_TOOLS, msgspec.json.encode({"query": words}).decode()
        if runs_any and GET_TOOL_SCHEMA in shown and any(_mentions(need.tool, request.messages)):
            return GET_TOOL_SCHEMA, msgspec.json.encode({"tool_name": need.tool}).decode()
        if runs_any and SEARCH_TOOLS in shown and (words := _words(need, progress.searched)):
            return SEARCH_TOOLS, msgspec.json.encode({"query": words}).decode()
        return None

    def _described(self, name: str, messages: Sequence[Message]) -> bool:
        """Some message says what the tool is called and names every parameter it has: who has read that can call it."""
        tool = self._catalog.get(name)
        properties = () if tool is None else tuple(tool.input_schema.get("properties", ()))
        return any(all(f'"{each}"' in text for each in properties) for text in _mentions(name, messages))


def _mentions(name: str, messages: Sequence[Message]) -> Iterator[str]:
    """Texts told to the model that hold the name, as a word."""
    texts = (message.text for message in messages if message.role != "assistant")
    return (text for text in texts if name in text and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def _words(need: Need, tried: dict[str, int]) -> str:
    """The model's next query; empty once it has tried often enough."""
    number = tried[need.tool] = tried.get(need.tool, 0) + 1
    return (need.words, need.guess)[number - 1] if number <= _ASKS else ""


def _call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


class _Names:
    """The names in tool arrays; each array is read once, by identity."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[JsonObject], frozenset[str]] = ((), frozenset())

    def shown(self, request: ModelRequest) -> frozenset[str]:
        """Names that may be called: not held back, or revealed since, and within what is allowed."""
        if request.tool_choice == "none":
            return frozenset()
        if self._last[0] is not request.tools:
            self._last = request.tools, frozenset(map(definition_name, request.tools))
        names = self._last[1]
        if request.deferred:
            revealed = {name for message in request.messages for name in message.revealed}
            names = names - (request.deferred - revealed)
        return names if request.allowed is None else names & set(request.allowed)
