"""Tools as the model and the policy see them, calls of tools, and their results. Data only; the code behind a tool is in its
source (`ports.ToolSource`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from toolcaddie.core.content import Content, as_content, text_of
from toolcaddie.core.usage import Usage

JsonObject = Mapping[str, Any]

CLIENT_SOURCE = "client"
"""Name of the source of tools that the caller runs itself: calls of them are returned to the caller and never executed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnnotations:
    """MCP's annotations of a tool's behaviour. None: unspecified."""

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
    """Extra words that a request may use for this tool; searched, never sent."""
    source: str = "local"
    annotations: ToolAnnotations = ToolAnnotations()
    core: bool = False
    """True: the tool is sent with every request, and `max_tools` does not count it."""
    concurrent: bool = False
    """True: the tool may run beside other calls of the same answer although it is not read-only."""
    ends_run: bool = False
    """True: a result of the tool may have the effect `Finish`, which ends the run."""
    polling: bool = False
    """True: the tool is meant to be called repeatedly, so repeated calls do not mean that the model is stuck."""
    idempotency_key: str | None = None
    """Name of the argument that takes an idempotency key; None: the tool takes none."""
    scope: str = "all"
    """`all`, or the id of the one bot that may use it."""
    creator: str | None = None
    """Id of the bot that wrote the tool, which may use it whatever its scope; None: no bot did."""
    tenant: str | None = None
    """The only tenant that may use it; None: all may."""
    roles: tuple[str, ...] = ()
    """Roles that may use it; empty: all."""
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds; None: the run's general timeout."""
    cache_ttl: float | None = None
    """Seconds for which a result may be reused; None: it may not."""
    personal: bool = False
    """True: the result depends on the caller and may be reused only for the same caller."""
    untrusted: bool = False
    """True: its results may contain what strangers wrote. After one of them, policies can be stricter."""
    definition: JsonObject | None = None
    """Wire definition exactly as a client sent it; None: made from the fields above."""
    original: str = ""
    """The tool's name at its source, or the operation that it calls there (`GET /pets`). Empty: it is `name`."""
    backing: str = ""
    """Digest of what runs the tool, as its source knows it: the code of a function, the address of a server. An approval holds
    only as long as it stays the same. Empty: the source does not know it."""
    own_form: JsonObject | None = None
    """The tool as the client defined it, if the client's API has forms that no function can express, such as a namespace. A
    provider with the same API receives this form; all others receive `definition`, a function."""

    @property
    def may_destroy(self) -> bool:
        """True unless the tool is known to be harmless: read-only, or declared non-destructive."""
        return not self.annotations.read_only and self.annotations.destructive is not False

    @property
    def is_restricted(self) -> bool:
        """True if its own roles, scope or tenant hide it from some callers."""
        return bool(self.roles) or self.scope != "all" or self.tenant is not None

    @property
    def runs_concurrently(self) -> bool:
        return self.concurrent or bool(self.annotations.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call by the model: `arguments` is its raw JSON text, which may be anything until it is validated."""

    id: str
    name: str
    arguments: str = "{}"
    extra: JsonObject | None = None
    """Unknown fields of the provider's API, stored so that they can be sent again unchanged."""


class Reveal(msgspec.Struct, frozen=True, kw_only=True, tag="reveal"):
    """Effect of a meta tool: these tools are delivered to the model from the next round on, in this order."""

    names: tuple[str, ...]
    slim: tuple[str, ...] = ()
    """Names of the tools whose schemas are sent in a shorter form."""
    replace: bool = False
    """True: these tools replace all delivered tools, because the slots reserved for additions are used up."""


Ending = Literal["answer", "question", "refusal"]
"""The kind of text with which a run ends: an answer, a question to the user, or the statement that the task cannot be done."""


class Finish(msgspec.Struct, frozen=True, kw_only=True, tag="finish"):
    """Effect of a meta tool, or of a tool with `Tool.ends_run`: the run ends with this text."""

    text: str
    ending: Ending = "answer"

    @property
    def is_valid(self) -> bool:
        """True unless a source put something else into the fields, which are not checked when an effect is made."""
        return isinstance(self.text, str) and self.ending in get_args(Ending)


class Taint(msgspec.Struct, frozen=True, kw_only=True, tag="taint"):
    """Effect of a meta tool: its result contains text from results of these untrusted tools."""

    names: tuple[str, ...]


Effect = Reveal | Finish | Taint

ErrorKind = Literal[
    "invalid_arguments",  # the arguments do not fit the schema; the model can correct its call
    "unknown_tool",  # no such tool is visible to this caller
    "denied",  # refused by policy, scope, a disabled tool, or a person
    "revoked",  # the caller could see the tool when the run began, but no longer
    "timeout",
    "failed",  # the tool raised or answered with an error
    "limit",  # the limit of calls was reached before this call
    "not_run",  # the run ended before the call began; the trail may already announce the call
    "unknown_outcome",  # the tool may or may not have run before a crash; it is not run again automatically
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The use of a run that was made inside a call, such as that of another bot."""

    usage: Usage = Usage()
    calls: int = 0
    """Calls of tools."""
    taint: tuple[str, ...] = ()
    """Untrusted tools whose results that run had read, and which its answer may repeat."""

    @property
    def tokens(self) -> int:
        return self.usage.input_tokens + self.usage.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. An error is a result too: the model reads it and can try again."""

    content: Content
    """Text, or blocks: text, images, audio, documents."""
    is_error: bool = False
    error: ErrorKind | None = None
    structured: Any = None
    """The value, JSON-compatible, for callers that do not want to parse `content`."""
    effect: Effect | None = None
    """Effect on the run. It counts from a meta tool of the engine; of another tool, only `Finish` counts, and only from a tool
    with `Tool.ends_run`."""
    held: str | None = None
    """Handle with which the meta tool `read_result` reads the whole of a truncated result; None: it is not truncated."""
    cached: bool = False
    """True: the tool did not run for this call; the result is that of an equal call, from the cache or from a call
    that was in progress."""
    tries: int = 1
    """Number of times the tool ran for this call."""
    spent: Spent | None = None
    """What a run inside the call has used. It counts against the limits of the run that made the call."""
    own_words: bool = False
    """True: the result has only words of the program and of the call itself, and nothing from outside, such as a refusal. It does
    not taint the conversation, even if the tool is untrusted."""

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            object.__setattr__(self, "content", as_content(self.content))

    @property
    def text(self) -> str:
        """The text of the result; the texts of several blocks are joined by newlines."""
        return text_of(self.content)

    @property
    def success(self) -> bool:
        return not self.is_error


def failed(content: str, kind: ErrorKind = "failed", *, own_words: bool = False) -> ToolResult:
    """Returns the result of a failed call, in words the model can act on. `own_words`: see `ToolResult.own_words`."""
    return ToolResult(content=content, is_error=True, error=kind, own_words=own_words)
