"""Messages of a conversation, requests to a provider and its replies, in a form that belongs to no provider. The package `wires`
translates them to and from the formats of the providers' APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcaddie.core.content import Content, Refusal, Text, as_content, block_text, text_of
from toolcaddie.core.schema.encoding import BYTES_PER_TOKEN
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.core.vocabulary import WireName

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `content` is text, or blocks (text, images, ...)."""

    role: Role
    content: Content | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    extra: JsonObject | None = None
    """Unknown wire fields, stored so that they can be sent again unchanged."""
    native: tuple[JsonObject, ...] = ()
    """An answer in the blocks of the API that it came from, in order (reasoning with its signature, text, calls). They are sent
    back to that API unchanged, except that calls get the ids of `tool_calls`. Empty: the fields above are complete."""
    author: str = ""
    """The `provider:model` that wrote the message; only this model receives `extra` and `native` again. If a caller sent the
    message in the blocks of a wire, `@` and the name of the wire (`@messages`). Empty: the caller wrote the message."""
    is_error: bool = False
    """True for the result of a failed tool call."""
    own_words: bool = False
    """True for a result with nothing from outside in it, which taints nothing. Only this program sets it: no wire has it."""
    revealed: tuple[str, ...] = ()
    """Deferred tools of the request that this message reveals by the provider's own mechanism."""
    shown: tuple[str, ...] = ()
    """Tools whose schemas are in the text of this message."""

    def __post_init__(self) -> None:
        if self.content is not None and not isinstance(self.content, str):
            object.__setattr__(self, "content", as_content(self.content))

    @property
    def text(self) -> str:
        """The text of the message; the texts of several blocks are joined by newlines."""
        content = self.content
        return content if isinstance(content, str) else text_of(content)


def is_empty_note(message: Message) -> bool:
    """Returns True for a system message without text, which no wire sends."""
    if message.role not in ("system", "developer"):
        return False
    if message.content is None or isinstance(message.content, str):
        return not (message.content or "").strip()
    return all(isinstance(block, Text) and not block.text.strip() for block in message.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """An order to the model: the answer must call a tool."""

    candidates: tuple[str, ...]
    """Names of the tools that fit the request, the most likely first."""
    ignored: frozenset[str] = frozenset()
    """Names of tools whose calls do not satisfy the order: meta tools, because searching for a tool is not using one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to a provider. `tools` has the definitions in OpenAI's function format, in the order in which they are sent; each
    wire translates them."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[JsonObject] = ()
    tool_choice: Any = None
    """'auto', 'none', 'required', or the wire object of a named or restricted choice; None: not sent."""
    params: Mapping[str, Any] | None = None
    """All other parameters of the request (temperature, seed, ...), sent unchanged."""
    headers: Mapping[str, str] | None = None
    timeout: float | None = None
    """Seconds for the whole answer; None: the provider's own default."""
    deferred: frozenset[str] = frozenset()
    """Names in `tools` whose definitions the model sees only after a result reveals them."""
    allowed: tuple[str, ...] | None = None
    """Names in `tools` that may be called; None: all."""
    output_schema: JsonObject | None = None
    """JSON schema of the answer; None: free text."""
    cache: bool = False
    """True: mark the prefix for the prompt cache, if the provider needs marks."""
    cache_key: str = ""
    """Key by which a provider may route the requests of one conversation; empty: not sent."""
    client_wire: WireName | None = None
    """The wire of the client for which the request is made. A provider of the same wire adds its own events to the pieces of a
    stream (`ModelDelta.event`, `CallDelta.native`)."""
    own_forms: Mapping[str, JsonObject] = field(default_factory=dict)
    """`Tool.own_form` of the tools that have one, by name. Only a wire that is `client_wire` reads them."""
    force: Force | None = None
    """Forced tool use. The wrapper around a provider that enforces it reads this field; wires ignore it."""


class CallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a streamed function call. `id` and `name` are in the first piece of an `index`.

    `index` is the call's position among all calls of the reply, including custom calls, which are not streamed.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    extra: JsonObject | None = None
    """Unknown wire fields of this piece, as in `ToolCall.extra`."""
    native: JsonObject | None = None
    """In the first piece: the beginning of the call in the blocks of its API, as in `Message.native`."""


class ModelDelta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer. `raw` is the provider's chunk if the provider speaks chat completions; the gateway passes its
    unknown fields on."""

    text: str = ""
    calls: tuple[CallDelta, ...] = ()
    raw: JsonObject | None = None
    reasoning: str = ""
    """Reasoning that the provider discloses; never part of the answer."""
    signature: str = ""
    """The provider's signature of the preceding reasoning."""
    event: bytes = b""
    """The provider's own event, undecoded, unless it belongs to a call. A door of the same wire passes it on instead of the other
    fields; `text` is then only what precedes the text of the event."""
    wire: WireName | None = None
    """The wire of `event`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request to a provider; an answer may take several (retries, fallbacks, forced tool use)."""

    provider: str
    model: str
    how: str = "plain"
    """Step of the escalation: plain, nudge, required, named, schema."""
    outcome: Literal["answered", "not_called", "failed"] = "answered"
    detail: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0


class RawBody:
    """Top-level fields of a provider's answer; for a stream, collected from all its chunks. The gateway passes them on to a
    client that speaks the same wire.

    `fields` may be given as a function, which is called when they are first read: for most answers nobody reads them.
    """

    __slots__ = ("_fields", "wire")

    def __init__(self, *, wire: WireName, fields: JsonObject | Callable[[], JsonObject]) -> None:
        self.wire = wire
        self._fields = fields

    @property
    def fields(self) -> JsonObject:
        """All fields of chat completions. Of other wires: `usage`, and the fields that have no place in `ModelReply`."""
        if callable(self._fields):
            self._fields = self._fields()
        return self._fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawBody) and (self.wire, self.fields) == (other.wire, other.fields)

    __hash__ = None  # type: ignore[assignment]  # it holds a dict

    def __repr__(self) -> str:
        return f"RawBody(wire={self.wire!r}, fields={self.fields!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A whole answer. `raw` holds the fields that have no place in it; the gateway passes them on."""

    message: Message
    finish_reason: str = "stop"
    """'stop', 'tool_calls', 'length', 'content_filter', or the provider's own word."""
    usage: Usage = Usage()
    """Usage of all `attempts` together."""
    model: str = ""
    raw: RawBody | None = None
    provider: str = ""
    """The provider that answered, if it is not the one that was asked; otherwise empty."""
    attempts: tuple[Attempt, ...] = ()
    """Every request made for this answer, if there were several; the last one produced the answer."""


_MESSAGE_TOKENS = 8
"""Estimated tokens of a message besides its text."""

_PART_TOKENS = 800
"""Estimated tokens of a picture or another part without text."""


def message_tokens(messages: Sequence[Message]) -> int:
    """Estimates the tokens of messages by their characters: cheap enough for every request, good enough to compare costs."""
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
