"""The tool as model and policy see it, the call a model makes, and what came back. Data only: never the code behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcaddie.core.content import Content, as_content, text_of

JsonObject = Mapping[str, Any]

CLIENT_SOURCE = "client"
"""The source label of tools that the caller runs itself: their calls are returned, never executed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnnotations:
    """What MCP says of a tool's behaviour. None means: not said."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `name` is unique in a catalog; `source` is the label of the source that runs it."""

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: JsonObject | None = None
    category: str | None = None
    hints: tuple[str, ...] = ()
    """Extra words a request may use for this tool; searched, never sent."""
    source: str = "local"
    annotations: ToolAnnotations = ToolAnnotations()
    core: bool = False
    """Sent with every request, outside `max_tools`."""
    concurrent: bool = False
    """May run beside other calls of its turn although it is not read-only."""
    polling: bool = False
    """Called again and again on purpose: repeats are not a sign of a stuck model."""
    idempotency_key: str | None = None
    """The argument that carries an idempotency key, if the tool takes one."""
    scope: str = "all"
    """`all`, or the id of the one bot that may use it."""
    roles: tuple[str, ...] = ()
    """Roles that may use it; empty: everybody."""
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds; None: the run's general timeout."""
    cache_ttl: float | None = None
    """Seconds a result may be reused; None: not cacheable."""
    personal: bool = False
    """It looks at who asks, so that a result may be reused for that one alone."""
    definition: JsonObject | None = None
    """The wire definition exactly as a client sent it; None: made from the fields above."""

    @property
    def may_destroy(self) -> bool:
        """True unless the tool is known to be harmless: read-only, or declared non-destructive."""
        return not self.annotations.read_only and self.annotations.destructive is not False

    @property
    def runs_concurrently(self) -> bool:
        return self.concurrent or bool(self.annotations.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model wrote it: `arguments` is the raw JSON text, which may be anything until it is checked."""

    id: str
    name: str
    arguments: str = "{}"
    extra: JsonObject | None = None
    """Wire fields we do not know, kept so that they go out again unchanged."""


class Reveal(msgspec.Struct, frozen=True, kw_only=True, tag="reveal"):
    """Effect: these tools join the delivery from the next round on, in this order."""

    names: tuple[str, ...]
    slim: tuple[str, ...] = ()
    """Of these, the ones whose schema is sent slimmed."""
    replace: bool = False
    """The reserve for additions is spent: these take the place of all that was delivered."""


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """Effect: the run ends with this text."""

    text: str


Effect = Reveal | Finish

ErrorKind = Literal[
    "invalid_arguments",  # the schema refused them: the model can mend its call
    "unknown_tool",  # no such tool is visible to this caller
    "denied",  # policy, scope, a disabled tool, or a person said no
    "revoked",  # visible when the run began, withdrawn since
    "timeout",
    "failed",  # the tool raised or answered with an error
    "limit",  # the turn limit was reached before this call
    "not_run",  # its intent was recorded, or may have been, and then the run broke off before the call began
    "unknown_outcome",  # it may or may not have run before a crash; never repeated blindly
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came back. An error is a result too: the model reads it and can do better."""

    content: Content
    """Text, or blocks: text, images, audio, documents."""
    is_error: bool = False
    error: ErrorKind | None = None
    structured: Any = None
    """The value itself, JSON-compatible, for callers who do not want to parse `content`."""
    effect: Effect | None = None
    """Counts only when it comes from a meta tool of the engine itself."""
    held: str | None = None
    """What `read_result` finds the whole of a cut result by."""
    cached: bool = False
    """The tool did not run for this call: the result was kept from an equal call, or comes from one that was under way."""
    tries: int = 1
    """How often the tool ran for it."""

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", as_content(self.content))

    @property
    def text(self) -> str:
        """The words of the result: those of its blocks, joined by newlines."""
        return text_of(self.content)

    @property
    def success(self) -> bool:
        return not self.is_error


def failed(content: str, kind: ErrorKind = "failed") -> ToolResult:
    """The result of a call that went wrong, in words the model can act on."""
    return ToolResult(content=content, is_error=True, error=kind)
