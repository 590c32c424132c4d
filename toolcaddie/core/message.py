"""A message of a conversation, and what a provider is asked and answers. Provider-neutral; wire names stay in `providers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcaddie.core.content import Content, Refusal, Text, as_content, block_text, text_of
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.tool import JsonObject, ToolCall

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `content` is text, or blocks (text, images, ...)."""

    role: Role
    content: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    extra: JsonObject | None = None
    """Wire fields we do not know, kept so that they go out again unchanged."""
    native: tuple[JsonObject, ...] = ()
    """An answer in its author's own blocks, in order (reasoning with its signature, text, calls): sent back as they are, the
    calls among them under the ids of `tool_calls`. Empty: the fields above say all there is."""
    author: str = ""
    """`provider:model` that wrote it and that alone is sent its `extra` and `native` again, or the wire (`messages`) of a caller
    who sent these; empty: the caller wrote it."""
    is_error: bool = False
    """Of a tool's result: the call went wrong."""
    revealed: tuple[str, ...] = ()
    """Tools of the request whose definitions are held back until this message: the wire says so in its provider's way."""
    shown: tuple[str, ...] = ()
    """Tools whose schemas the text of this message shows."""

    def __post_init__(self) -> None:
        if self.content is not None and not isinstance(self.content, str):
            object.__setattr__(self, "content", as_content(self.content))

    @property
    def text(self) -> str:
        """The words of the message: those of its blocks, joined by newlines."""
        return text_of(self.content)


def is_empty_note(message: Message) -> bool:
    """Whether this is a system message without a word, which no wire sends."""
    if message.role not in ("system", "developer"):
        return False
    if message.content is None or isinstance(message.content, str):
        return not (message.content or "").strip()
    return all(isinstance(block, Text) and not block.text.strip() for block in message.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or several model calls. Adding two gives the sum."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those read from the provider's prompt cache."""
    written_tokens: int = 0
    """Of the input tokens, those the provider bills as written to its prompt cache."""
    reasoning_tokens: int = 0
    """Of the output tokens, those of reasoning."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            written_tokens=self.written_tokens + other.written_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """The answer must call a tool."""

    candidates: tuple[str, ...]
    """Tools of the request, the likeliest first."""
    ignored: frozenset[str] = frozenset()
    """Calls of these do not count (looking for a tool is not using one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a provider is asked. `tools` are wire definitions (OpenAI function format) in the order they are to be sent."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[JsonObject] = ()
    tool_choice: Any = None
    """'auto', 'none', 'required', or the wire object of a named or restricted choice; None: not sent."""
    params: Mapping[str, Any] | None = None
    """Everything else of the request (temperature, seed, ...), sent as it is."""
    headers: Mapping[str, str] | None = None
    timeout: float | None = None
    """Seconds for the whole answer; None: the provider's own default."""
    deferred: frozenset[str] = frozenset()
    """Names in `tools` whose definitions the model is not shown until a result reveals them."""
    allowed: tuple[str, ...] | None = None
    """Of `tools`, those that may be called; None: all."""
    output_schema: JsonObject | None = None
    """The answer must be JSON of this schema."""
    cache: bool = False
    """Mark the prefix as worth keeping, where a provider's prompt cache has to be told."""
    cache_key: str = ""
    """Equal for the requests of one conversation, where a provider routes by it; empty: not sent."""
    force: Force | None = None
    """For the wrapper that sees to it; a wire does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of a streamed call of a function. `id` and `name` come with the first piece of an `index`.

    `index` is the call's place among those of the whole reply, where a custom call, which is not streamed, has one too.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    extra: JsonObject | None = None
    """Wire fields of this piece that we do not know, as in `ToolCall.extra`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A piece of a streamed answer. `raw` is the provider's own chunk where that is one of chat completions, for doors that
    pass unknown fields on."""

    text: str = ""
    calls: tuple[CallDelta, ...] = ()
    raw: JsonObject | None = None
    reasoning: str = ""
    """Thinking aloud, as far as the provider shows it; never part of the answer."""
    signature: str = ""
    """The provider's seal on the reasoning that came before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request to a provider on the way to an answer."""

    provider: str
    model: str
    how: str = "plain"
    """The rung of the ladder: plain, nudge, required, named, schema."""
    outcome: Literal["answered", "not_called", "failed"] = "answered"
    detail: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A whole answer. `raw` is the provider's own body where that is one of chat completions (of a stream: what could be
    gathered), for pass-through."""

    message: Message
    finish_reason: str = "stop"
    """'stop', 'tool_calls', 'length', 'content_filter', or a word of the provider's own."""
    usage: Usage = Usage()
    """Of all `attempts` together, where there were several."""
    model: str = ""
    raw: JsonObject | None = None
    provider: str = ""
    """Who answered, where that is not the one who was asked; empty: that one."""
    attempts: tuple[Attempt, ...] = ()
    """Every request made for this answer, where a wrapper made several; the last one gave it."""


_MESSAGE_TOKENS = 8
_PART_TOKENS = 800
"""What a message costs beside its words, and a picture or another part without any."""


def message_tokens(messages: Sequence[Message]) -> int:
    """Roughly the tokens of messages, by their characters: cheap enough for every request, good enough to weigh prices."""
    return sum(_tokens_of(message) for message in messages)


def _tokens_of(message: Message) -> int:
    content = message.content
    if content is None or isinstance(content, str):
        size, parts = len(content or ""), 0
    else:
        size = len(message.text)
        parts = sum(block_text(block) is None and not isinstance(block, Refusal) for block in content)
    size += sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
    return int(size / BYTES_PER_TOKEN) + _MESSAGE_TOKENS + parts * _PART_TOKENS
