"""Bills requests to a model as its provider would, for `toolcaddie eval costs`.

A request is rendered to a prompt, a sequence of segments. A simulated prompt cache says how many of its tokens are read,
written or neither, and the provider's price rule makes dollars of these. Numbers of tokens are estimates of
`schema.estimate_tokens`. The way in which tools were selected and sent does not matter here.
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
    """The prices and the cache rules of one model."""

    model: str
    """`provider:model`."""
    prices: Prices
    cache: CacheRule
    marks: tuple[Mark, ...] = ("tools", "system", "before", "last")
    """Places after which a request sets a cache breakpoint, as Toolcaddie's provider does: the last tool, the system prompt, the
    message before the model's last answer, and the last block."""
    lookback: int = 20
    """Number of blocks before a breakpoint in which the provider looks for the end of a cached prefix."""
    deferral: bool = False
    """True if the model can be sent definitions that stay out of the prompt until a message reveals them."""

    @classmethod
    def of(cls, model: str) -> PriceRule:
        """Returns the rule of a model from the capability table. Raises `ConfigError` if it has no price there."""
        row = capabilities_of(model)
        if row.prices is None:
            raise ConfigError(f"no price is known of model {model!r}; name another model as provider:model")
        return cls(model=model, prices=row.prices, cache=row.cache, deferral=bool(row.deferral))


Kind = Literal["tool", "system", "choice", "message", "answer", "revealed"]
"""Kind of a segment: definition of a tool, system prompt, tool choice, message of the user or of a tool, block of the model's
answer, definition that a message revealed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a prompt that is cached as a whole or not at all: a definition, a text, a call or a result."""

    kind: Kind
    digest: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: its segments in the order in which the provider reads them. Make it with `Prompt.of`."""

    segments: tuple[Segment, ...]
    chain: tuple[int, ...]
    """For each segment, a digest of all segments up to it. Equal digests mean equal prefixes."""
    ends: tuple[int, ...]
    """For each segment, the tokens of all segments up to it."""
    tools: int
    """Number of segments at the front that are definitions."""
    head: int
    """Number of segments before the first message."""
    before_last: int
    """Number of segments before the model's last answer; the number of all segments if there is no answer."""

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> Prompt:
        """Makes a prompt of segments in this order: tools, system, choice, messages."""
        tools = sum(segment.kind == "tool" for segment in segments)
        return cls(
            segments=tuple(segments),
            chain=_chained(segments),
            ends=tuple(accumulate(segment.tokens for segment in segments)),
            tools=tools,
            head=tools + sum(segment.kind in ("system", "choice") for segment in segments),
            before_last=_before_last_answer(segments),
        )

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def upto(self, count: int) -> int:
        """Returns the tokens of the first `count` segments."""
        return self.ends[count - 1] if count else 0


def _before_last_answer(segments: Sequence[Segment]) -> int:
    last = next((at for at in range(len(segments) - 1, -1, -1) if segments[at].kind == "answer"), len(segments) - 1)
    return next((at + 1 for at in range(last, -1, -1) if segments[at].kind != "answer"), 0)


def _chained(segments: Sequence[Segment]) -> tuple[int, ...]:
    digests = (segment.digest for segment in segments)
    return tuple(accumulate(digests, lambda before, digest: hash((before, digest)), initial=0))[1:]


class Renderer:
    """Renders requests to prompts. A conversation sends the same definitions and messages again and again, so their segments
    are cached by `id()`. The objects are kept as well, because Python may give the `id()` of a deleted object to another
    one."""

    def __init__(self) -> None:
        self._definitions: dict[int, tuple[JsonObject, Segment]] = {}
        self._messages: dict[int, tuple[Message, tuple[Segment, ...]]] = {}

    def render(self, request: ModelRequest) -> Prompt:
        """Renders the tools that are not deferred, the system prompt, the tool choice and the messages.

        The definition of a deferred tool stands after the first result that reveals the tool, and costs nothing before.
        `request.allowed` is not part of the prompt.
        """
        names = [definition_name(definition) for definition in request.tools] if request.deferred else []
        deferred = {name: tool for name, tool in zip(names, request.tools, strict=False) if name in request.deferred}
        visible = (
            request.tools
            if not deferred
            else [t for n, t in zip(names, request.tools, strict=True) if n not in deferred]
        )
        leading = _leading_system(request.messages)
        segments = [self._definition(definition) for definition in visible]
        for message in request.messages[:leading]:
            segments.extend(_as_system(self._message(message)))
        if request.tool_choice not in (None, "auto"):  # None and "auto" mean the same
            segments.append(Segment("choice", _digest(canonical_json(request.tool_choice)), 0))
        for message in request.messages[leading:]:
            segments.extend(self._message(message))
            for name in message.revealed:
                if (definition := deferred.pop(name, None)) is not None:
                    segment = self._definition(definition)
                    segments.append(Segment("revealed", segment.digest, segment.tokens))
        return Prompt.of(segments)

    def clear(self) -> None:
        """Drops the messages of a finished conversation."""
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
    """Renders one request; see `Renderer.render`."""
    return Renderer().render(request)


def _leading_system(messages: Sequence[Message]) -> int:
    """Returns the number of system and developer messages at the beginning."""
    return next(
        (at for at, message in enumerate(messages) if message.role not in ("system", "developer")), len(messages)
    )


def _as_system(segments: Sequence[Segment]) -> list[Segment]:
    return [Segment("system", segment.digest, segment.tokens) for segment in segments]


def _blocks(message: Message) -> list[Segment]:
    """Returns the blocks of a message: one for its text or result, and one for each call."""
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
    """Returns the name in a wire definition; empty if it has none."""
    function = definition.get("function")
    return str((function if isinstance(function, Mapping) else definition).get("name", ""))


# --- the bill ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of one request, or of several. Each token of a prompt counts as read, written or plain."""

    read: int = 0
    """Tokens of prompts that were read from the cache."""
    written: int = 0
    """Tokens of prompts that were written to the cache."""
    plain: int = 0
    """Tokens of prompts that had nothing to do with the cache."""
    output: int = 0
    """Tokens of answers."""
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
    """The prompt cache of a provider, with the prompts of one conversation. `bill` must be called in the order of time."""

    def __init__(self, rule: PriceRule) -> None:
        self.rule = rule
        self._prompts: list[tuple[Prompt, float]] = []
        """For an automatic cache: prompts with their times, without those that are a prefix of a later prompt."""
        self._marked: dict[int, float] = {}
        """For a cache with breakpoints: the time of the last use of each cached prefix, by the prefix's digest."""

    def bill(self, prompt: Prompt, at: float, output_tokens: int = 0, *, marked: bool = True) -> Bill:
        """Bills a request that is sent at `at` seconds, and writes its prompt to the cache.

        `marked`: the request has breakpoints. Without them, a cache with breakpoints neither reads nor writes.
        """
        prompt = as_cached(prompt, self.rule)
        kind = self.rule.cache.kind
        if kind == "automatic":
            read_tokens, written_tokens = self._automatic(prompt, at)
        elif kind == "breakpoints" and marked:
            read_tokens, written_tokens = self._breakpoints(prompt, at)
        else:
            read_tokens = written_tokens = 0
        return self._bill_of(read_tokens, written_tokens, prompt.tokens - read_tokens - written_tokens, output_tokens)

    def _automatic(self, prompt: Prompt, at: float) -> tuple[int, int]:
        """Returns the tokens of a prompt that are read and written, for a cache that finds common prefixes by itself."""
        cache = self.rule.cache
        alive = [(prefix, sent_at) for prefix, sent_at in self._prompts if at - sent_at <= cache.lifetime]
        common = [_common(prefix, prompt) for prefix, _ in alive]
        longest = prompt.upto(max(common, default=0))
        read_tokens = longest - longest % cache.step if longest >= cache.minimum else 0
        self._prompts = [
            entry for entry, count in zip(alive, common, strict=True) if count < len(entry[0].chain)
        ]  # prefixes of the new prompt are dropped, because the new prompt expires later
        self._prompts.append((prompt, at))
        return read_tokens, prompt.tokens - read_tokens if prompt.tokens >= cache.minimum else 0

    def _breakpoints(self, prompt: Prompt, at: float) -> tuple[int, int]:
        """Returns the tokens of a prompt that are read and written, for a cache that stores only prefixes ending at the
        breakpoints of a request."""
        cache = self.rule.cache
        self._marked = {key: used_at for key, used_at in self._marked.items() if at - used_at <= cache.lifetime}
        ends = {"tools": prompt.tools, "system": prompt.head, "before": prompt.before_last, "last": len(prompt.chain)}
        points = sorted({ends[mark] for mark in self.rule.marks})
        points = [count for count in points if count and prompt.upto(count) >= cache.minimum]
        hit = max((self._longest_hit(prompt, count) for count in points), default=0)
        for count in (*points, *([hit] if hit else ())):
            self._marked[prompt.chain[count - 1]] = at
        read_tokens = prompt.upto(hit)
        read_tokens -= read_tokens % cache.step
        return read_tokens, prompt.upto(points[-1] if points else 0) - read_tokens

    def _longest_hit(self, prompt: Prompt, count: int) -> int:
        """Returns the length of the longest cached prefix that ends in the last `lookback` blocks before a breakpoint, or 0.

        `count`: number of segments before the breakpoint.
        """
        furthest = max(count - self.rule.lookback, 0)
        return next((at for at in range(count, furthest, -1) if prompt.chain[at - 1] in self._marked), 0)

    def _bill_of(self, read_tokens: int, written_tokens: int, plain: int, output: int) -> Bill:
        """Returns the bill for these numbers of tokens, by the prices of the rule."""
        prices = self.rule.prices
        dollars = (
            read_tokens * prices.cached
            + written_tokens * prices.written
            + plain * prices.input
            + output * prices.output
        )
        return Bill(read=read_tokens, written=written_tokens, plain=plain, output=output, dollars=dollars / 1e6)


def prefix_kept(previous: Prompt, current: Prompt) -> tuple[int, int]:
    """Returns the tokens of the prefix that both prompts share, and the tokens of the previous prompt."""
    return current.upto(_common(previous, current)), previous.tokens


def _common(first: Prompt, second: Prompt) -> int:
    """Returns the number of segments with which both prompts start. After the first difference all digests differ, so it
    bisects."""
    most = min(len(first.chain), len(second.chain))
    return bisect_left(range(most), True, key=lambda at: first.chain[at] != second.chain[at])


def as_cached(prompt: Prompt, rule: PriceRule) -> Prompt:
    """Returns the prompt as the cache of this rule sees it: without the tool choice, unless a changed choice ends the prefix."""
    if rule.cache.choice_breaks or not any(
        segment.kind == "choice" for segment in prompt.segments[prompt.tools : prompt.head]
    ):
        return prompt
    return Prompt.of([segment for segment in prompt.segments if segment.kind != "choice"])
