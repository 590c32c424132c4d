"""A message of a conversation, and what a provider is asked and answers. Provider-neutral; wire names stay in `providers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcaddie.tool_types import JsonObject, ToolCall

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `content` is text, or content parts (text, images, ...) in OpenAI's form, passed through as they are."""

    role: Role
    content: str | tuple[JsonObject, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    extra: JsonObject | None = None
    """Wire fields we do not know, kept so that they go out again unchanged."""

    @property
    def text(self) -> str:
        """The words of the message: the text parts, joined by newlines."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(
            part["text"] for part in self.content if part.get("type") == "text" and isinstance(part.get("text"), str)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or several model calls. Adding two gives the sum."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those read from the provider's prompt cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A piece of a streamed call of a function. `id` and `name` come with the first piece of an `index`.

    `index` is the call's place among those of the whole reply, where a custom call, which is not streamed, has one too.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelta:
    """A piece of a streamed answer. `raw` is the provider's own chunk, for doors that pass unknown fields on."""

    text: str = ""
    calls: tuple[CallDelta, ...] = ()
    raw: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A whole answer. `raw` is the provider's own body (of a stream: what could be gathered), for pass-through."""

    message: Message
    finish_reason: str = "stop"
    usage: Usage = Usage()
    model: str = ""
    raw: JsonObject | None = None
