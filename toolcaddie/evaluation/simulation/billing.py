"""Bills of requests under a provider's price rule: the prompt as rendered, and the cache that may hold its beginning.

It knows nothing of how tools are chosen or delivered, and bills what stands in a `ModelRequest` and nothing else. Tokens are
`schema.estimate_tokens`; every figure is by that estimate.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Literal

from toolcaddie.core.capabilities import CacheRule, Prices, capabilities_of
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.schema import canonical_json, estimate_tokens
from toolcaddie.core.tool import JsonObject

Mark = Literal["tools", "system", "before", "last"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """Prices and cache rules of one model of a provider."""

    model: str
    """`provider:model`."""
    prices: Prices
    cache: CacheRule
    marks: tuple[Mark, ...] = ("tools", "system", "before", "last")
    """Places of the marks of a cache with breakpoints, as our adapter for such a provider sets them: behind the last tool, the
    system prompt, the message that the last answer was to, and the last block."""
    lookback: int = 20
    """Blocks before a breakpoint, itself among them, at which a prefix kept earlier is found."""
    deferral: bool = False
    """Definitions can be held back until a message reveals them."""

    @classmethod
    def of(cls, model: str) -> PriceRule:
        """The rule of a model in the capability table. Raises `ConfigError` where that knows no price."""
        row = capabilities_of(model)
        if row.prices is None:
            raise ConfigError(f"no price is known of model {model!r}; name another, as provider:model")
        return cls(model=model, prices=row.prices, cache=row.cache, deferral=bool(row.deferral))


Kind = Literal["tool", "system", "choice", "message", "answer", "revealed"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt that is cached whole or not at all: a definition, a text, a call, a result."""

    kind: Kind
    digest: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """Segments in the provider's order. Make one with `Prompt.of`."""

    segments: tuple[Segment, ...]
    chain: tuple[int, ...]
    """Number i is a digest of the segments up to and with i: equal numbers, equal beginnings."""
    ends: tuple[int, ...]
    """Number i is the tokens of the segments up to and with i."""
    tools: int
    """Segments that are definitions at the front."""
    head: int
    """Segments before the first message."""
    asked: int
    """Segments before the model's last answer; all of them where there is none."""

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Prompt:
        """In the order given: tools, system, choice, then the messages."""
        tools = sum(segment.kind == "tool" for segment in segments)
        return cls(
            segments=tuple(segments),
            chain=_chained(segments),
            ends=tuple(accumulate(segment.tokens for segment in segments)),
            tools=tools,
            head=tools + sum(segment.kind in ("system", "choice") for segment in segments),
            asked=_before_last_answer(segments),
        )

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def upto(self, count: int) -> int:
        """Tokens of the first `count` segments."""
        return self.ends[count - 1] if count else 0


def _before_last_answer(segments: Sequence[Segment]) -> int:
    last = next((at for at in range(len(segments) - 1, -1, -1) if segments[at].kind == "answer"), len(segments) - 1)
    return next((at + 1 for at in range(last, -1, -1) if segments[at].kind != "answer"), 0)


def _chained(segments: Sequence[Segment]) -> tuple[int, ...]:
    digests = (segment.digest for segment in segments)
    return tuple(accumulate(digests, lambda before, digest: hash((before, digest)), initial=0))[1:]


class Renderer:
    """Turns requests into prompts. Definitions and messages are read once each, by identity, and held so that it stays theirs:
    a conversation sends the same ones again and again."""

    def __init__(self) -> None:
        self._definitions: dict[int, tuple[JsonObject, Segment]] = {}
        self._messages: dict[int, tuple[Message, tuple[Segment, ...]]] = {}

    def render(self, request: ModelRequest) -> Prompt:
        """Tools that are not deferred, system prompt, tool choice, messages. A deferred definition stands behind the first
        result that reveals it, and costs nothing before. What may be called (`allowed`) is no part of the prompt."""
        names = [definition_name(definition) for definition in request.tools] if request.deferred else []
        held = {name: tool for name, tool in zip(names, request.tools, strict=False) if name in request.deferred}
        shown = request.tools if not held else [t for n, t in zip(names, request.tools, strict=True) if n not in held]
        leading = _leading_system(request.messages)
        segments = [self._definition(definition) for definition in shown]
        for message in request.messages[:leading]:
            segments.extend(_as_system(self._message(message)))
        if request.tool_choice not in (None, "auto"):  # which mean the same
            segments.append(Segment("choice", _digest(canonical_json(request.tool_choice)), 0))
        for message in request.messages[leading:]:
            segments.extend(self._message(message))
            for name in message.revealed:
                if (definition := held.pop(name, None)) is not None:
                    segment = self._definition(definition)
                    segments.append(Segment("revealed", segment.digest, segment.tokens))
        return Prompt.of(segments)

    def clear(self) -> None:
        """Let go of the messages of a conversation that has ended."""
        self._messages.clear()

    def _definition(self, definition: JsonObject) -> Segment:
        remembered = self._definitions.get(id(definition))
        if remembered is None:
            segment = _segment("tool", canonical_json(definition))
            remembered = self._definitions[id(definition)] = (definition, segment)
        return remembered[1]

    def _message(self, message: Message) -> tuple[Segment, ...]:
        remembered = self._messages.get(id(message))
        if remembered is None:
            remembered = self._messages[id(message)] = (message, tuple(_blocks(message)))
        return remembered[1]


def render(request: ModelRequest) -> Prompt:
    """One request as its provider reads it; see `Renderer.render`."""
    return Renderer().render(request)


def _leading_system(messages: Sequence[Message]) -> int:
    """Number of the operator's messages before the conversation."""
    return next((at for at, each in enumerate(messages) if each.role not in ("system", "developer")), len(messages))


def _as_system(segments: Sequence[Segment]) -> list[Segment]:
    return [Segment("system", segment.digest, segment.tokens) for segment in segments]


def _blocks(message: Message) -> list[Segment]:
    """A message's text or result is one block, each of its calls another."""
    kind: Kind = "answer" if message.role == "assistant" else "message"
    blocks = []
    if message.content or not message.tool_calls:
        parts = [message.role, message.content, message.tool_call_id]
        blocks.append(_segment(kind, canonical_json(parts)))
    blocks += [_segment(kind, canonical_json([call.id, call.name, call.arguments])) for call in message.tool_calls]
    return blocks


def _segment(kind: Kind, encoded: bytes) -> Segment:
    return Segment(kind, _digest(encoded), estimate_tokens(encoded))


def _digest(encoded: bytes) -> int:
    return int.from_bytes(blake2b(encoded, digest_size=8).digest())


def definition_name(definition: JsonObject) -> str:
    """The name in a wire definition; empty where it has none."""
    function = definition.get("function")
    return str((function if isinstance(function, Mapping) else definition).get("name", ""))


# --- the bill ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of one or several requests. The first three are the prompt's tokens, each counted once."""

    read: int = 0
    written: int = 0
    plain: int = 0
    output: int = 0
    dollars: float = 0.0

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.plain

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            read=self.read + other.read,
            written=self.written + other.written,
            plain=self.plain + other.plain,
            output=self.output + other.output,
            dollars=self.dollars + other.dollars,
        )


class PromptCache:
    """One conversation's part of a provider's prompt cache. Requests come in the order of their times."""

    def __init__(self, rule: PriceRule) -> None:
        self.rule = rule
        self._sent: list[tuple[Prompt, float]] = []
        """Of an automatic cache: prompts whose end no later one repeats, and when they were sent."""
        self._marked: dict[int, float] = {}
        """Of one with breakpoints: the digest of each prefix kept, and when it was used last."""

    def bill(self, prompt: Prompt, at: float, output_tokens: int = 0, *, marked: bool = True) -> Bill:
        """Bills the request at `at` seconds and puts its prompt into the cache. `marked`: its prefix is marked as worth
        caching, without which a cache with breakpoints neither reads nor writes."""
        prompt = as_cached(prompt, self.rule)
        kind = self.rule.cache.kind
        if kind == "automatic":
            read, written = self._automatic(prompt, at)
        elif kind == "breakpoints" and marked:
            read, written = self._breakpoints(prompt, at)
        else:
            read = written = 0
        return self._priced(read, written, prompt.tokens - read - written, output_tokens)

    def _automatic(self, prompt: Prompt, at: float) -> tuple[int, int]:
        cache = self.rule.cache
        alive = [(prefix, when) for prefix, when in self._sent if at - when <= cache.lifetime]
        common = [_common(prefix, prompt) for prefix, _ in alive]
        longest = prompt.upto(max(common, default=0))
        read = longest - longest % cache.step if longest >= cache.minimum else 0
        self._sent = [
            each for each, count in zip(alive, common, strict=True) if count < len(each[0].chain)
        ]  # the others are beginnings of this prompt, which lives longer
        self._sent.append((prompt, at))
        return read, prompt.tokens - read if prompt.tokens >= cache.minimum else 0

    def _breakpoints(self, prompt: Prompt, at: float) -> tuple[int, int]:
        cache = self.rule.cache
        self._marked = {key: when for key, when in self._marked.items() if at - when <= cache.lifetime}
        ends = {"tools": prompt.tools, "system": prompt.head, "before": prompt.asked, "last": len(prompt.chain)}
        points = sorted({ends[mark] for mark in self.rule.marks})
        points = [count for count in points if count and prompt.upto(count) >= cache.minimum]
        hit = max((self._found(prompt, count) for count in points), default=0)
        for count in (*points, *([hit] if hit else ())):
            self._marked[prompt.chain[count - 1]] = at
        read = prompt.upto(hit)
        return read - read % cache.step, prompt.upto(points[-1] if points else 0) - read + read % cache.step

    def _found(self, prompt: Prompt, count: int) -> int:
        """Segments of the longest prefix kept that ends at this breakpoint or not far before it."""
        furthest = max(count - self.rule.lookback, 0)
        return next((at for at in range(count, furthest, -1) if prompt.chain[at - 1] in self._marked), 0)

    def _priced(self, read: int, written: int, plain: int, output: int) -> Bill:
        prices = self.rule.prices
        dollars = read * prices.cached + written * prices.written + plain * prices.input + output * prices.output
        return Bill(read=read, written=written, plain=plain, output=output, dollars=dollars / 1e6)


def prefix_kept(previous: Prompt, current: Prompt) -> tuple[int, int]:
    """Tokens at the beginning of both prompts that are identical, and the tokens of the previous one."""
    return current.upto(_common(previous, current)), previous.tokens


def _common(one: Prompt, other: Prompt) -> int:
    """Number of segments that both begin with. Once the chains differ they differ for good, so halving finds the place."""
    most = min(len(one.chain), len(other.chain))
    return bisect_left(range(most), True, key=lambda at: one.chain[at] != other.chain[at])


def as_cached(prompt: Prompt, rule: PriceRule) -> Prompt:
    """The prompt as far as the rule's cache looks at it: not at the tool choice, unless a changed one breaks it."""
    if rule.cache.choice_breaks or not any(
        each.kind == "choice" for each in prompt.segments[prompt.tools : prompt.head]
    ):
        return prompt
    return Prompt.of([segment for segment in prompt.segments if segment.kind != "choice"])
