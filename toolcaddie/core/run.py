"""The request of a caller, the state of a run between two steps, and its result."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.delivery import AddedBy, DeliveredTool, Settled
from toolcaddie.core.message import Message, Usage
from toolcaddie.core.numbers import Count, OneToTen, Positive, Seconds, TwoOrMore, UpToTen
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import JsonObject, Tool, ToolCall, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Independent counters, each with an end of its own; None: off."""

    rounds: OneToTen | None = 5
    """Model calls with tools; after the last, one more without tools."""
    turns: Positive | None = 75
    """Executed real tools; one more is refused and the run fails."""
    idle_rounds: Positive | None = 75
    """Model calls that asked for meta tools, unknown names or refused calls alone, so that no tool ran; then the run fails."""
    idle_rounds_in_row: Positive | None = 25
    """The same without a tool that ran in between."""
    forced_attempts: Positive = 3
    """Model calls until the first tool call, when use is forced."""
    seconds: Seconds | None = 300.0
    tokens: Positive | None = None
    """Of all model calls together, as the provider counts; at the limit the run fails before the next call."""
    tool_seconds: Seconds = 30.0
    """For tools without a timeout of their own."""
    tool_seconds_most: Seconds | None = None
    """An upper bound for tools with one."""
    tool_retries: UpToTen = 0
    """Repetitions of a tool that failed, where that is safe."""
    result_bytes: Positive = 100_000
    """A longer result is cut, and says so."""
    result_media_bytes: Count = 4_000_000
    """Pictures, sound and files of a result, in base64; those beyond are replaced by a sentence."""
    repeats_warn: TwoOrMore | None = 3
    repeats_stop: TwoOrMore | None = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Identifies a conversation whose client sends all of it again with every request (`core.transcript` makes the digests).

    The results of its own tools come with the next request too, so its runs are not stored for `Runtime.resume` when they end
    with calls of the client's tools.
    """

    digest: str
    """Of the conversation as the client sent it."""
    answered: str | None = None
    """Up to the last answer in it: the digest under which the turn before was kept; None: there is no answer yet."""
    name: str = ""
    """The client's own name for the conversation; empty: it has none."""

    @property
    def previous_name(self) -> str | None:
        """The name that the turn before was kept under."""
        return self.name or self.answered


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of a caller.

    `messages` ends with what is to be answered. `client_tools` are run by the caller: their calls end the run and come
    back in `RunResult.client_calls`. `params` goes to the provider as it is.
    """

    messages: Sequence[Message]
    principal: Principal = Principal()
    model: str | None = None
    preset: str | None = None
    client_tools: Sequence[Tool] = ()
    use_catalog: bool = True
    """False: only the client's tools."""
    tool_choice: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    conversation: str | Transcript | None = None
    """The caller's own name for this conversation, or its digests, for deliveries that stay the same from turn to turn."""
    cache_key: str = ""
    """The key that a provider may route the requests of this conversation by; empty: the conversation's name."""
    remember: bool = True
    """False: the caller keeps the conversation itself: it hands in `delivered`, and the results of its own tools come with a
    new request, not by `Runtime.resume`."""
    delivered: Sequence[DeliveredTool] = ()
    """The tools that the conversation was sent before, where the caller keeps it."""
    categories: Sequence[str] | None = None
    """Take these categories instead of matching the message."""
    max_tools: int | None = None
    """Most tools to select for this request, core and meta tools aside; None: as many as the preset says."""
    disabled_tools: Sequence[str] = ()
    essential: Mapping[str, str] = field(default_factory=dict)
    """Tools the caller cannot do without, each with the reason that `why` shows: always sent, outside `max_tools` and inside the
    provider's cap. The caller's own among them can still be called in the last round."""
    tags: Sequence[str] | None = None
    """Only tools that carry one of these (`collab_safe`) are there at all; None: whatever they carry. What the prompt says of
    tools is the caller's, and has no part in this."""
    output: Any = None
    """The type of the answer: a pydantic model, a dataclass, a TypedDict or another type, or a JSON schema; None: words."""
    dependencies: Sequence[Any] = ()
    """Objects that tools take by type in this request, over those of the runtime."""
    injected: Mapping[str, Any] = field(default_factory=dict)
    """Arguments added to every call of our own tools, over what the model sent (`_chatId`, `_botId`)."""
    run_id: str | None = None
    lease: int | None = None
    """Begin only while this process holds that lease: something was claimed for the run under it. None: any."""

    @property
    def is_resumable(self) -> bool:
        """A run that ends with calls of the caller's own tools is stored for `Runtime.resume`."""
        return self.remember and not isinstance(self.conversation, Transcript)


ReportProgress = Callable[[float, float | None, str], Awaitable[None]]
"""Takes how much is done, of how much (None: not known), and words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The part of a run that stays the same. A tool's own copy also says how much is left of the run."""

    run_id: str
    principal: Principal
    view: View
    model: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    tool_choice: Any = None
    essential: Sequence[str] = ()
    injected: Mapping[str, Any] = field(default_factory=dict)
    cache_key: str = ""
    dependencies: Mapping[type, Any] = field(default_factory=dict, repr=False)
    """Objects that the application gives to tools, by the types it declared."""
    variables: dict[str, Any] = field(default_factory=dict)
    """A scratch pad for the tools of this one run; gone with it."""
    calls_left: int | None = None
    """Tool calls that the run may still make after this one; None: any number."""
    deadline: float | None = None
    """The moment on the monotonic clock at which this call is cancelled; None: no moment is set."""
    on_progress: ReportProgress | None = field(default=None, compare=False, repr=False)
    """Takes the progress of this call; None: no one listens."""
    began: float = field(default_factory=time.monotonic, compare=False)
    """When the run began on the monotonic clock; of a run carried on, as if it had gone on without the pause."""

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken so far."""
        return time.monotonic() - self.began

    async def report_progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tells whoever watches the run how far this call has come."""
        if self.on_progress is not None:
            await self.on_progress(done, total, message)


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the turn under way and how far it came."""

    call: ToolCall
    result: ToolResult | None = None
    waiting: Literal["", "approval", "client"] = ""
    """The one the call waits for before there is a result."""
    decision: Decision | None = None
    """The policy's decision to ask, of a call that waits for a person."""
    approval: str = ""
    """The id of the question it waits for (`ports.ApprovalStore`)."""


RunStatus = Literal["running", "completed", "client_calls", "pending", "failed"]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run between turns. Plain data: encode with msgspec, store, decode, carry on."""

    run_id: str
    status: RunStatus = "running"
    messages: tuple[Message, ...] = ()
    first_new: int = 0
    """Index in `messages` of the first one this run added."""
    delivered: tuple[DeliveredTool, ...] = ()
    meta: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """Tools that messages have made known behind the array."""
    referenced: tuple[str, ...] = ()
    """Of these, the ones made known by the provider's own means."""
    allowed: tuple[str, ...] | None = None
    """Of what was delivered, what may be called, where the provider masks; None: all."""
    later_by: AddedBy = "array"
    """The way in which tools that join are made known."""
    categories: tuple[str, ...] = ()
    """Those a first stage named, for the turn that follows."""
    settled: Settled | None = None
    """How the tools reach the model, in every round of the run."""
    prefix_digest: str = ""
    """Of the tool array that was sent last: it is on record when it differs."""
    revealed: tuple[str, ...] = ()
    """The tools that a meta call found last."""
    pending: tuple[PendingCall, ...] = ()
    """The calls under way; empty between rounds."""
    rounds: int = 0
    idle_rounds: int = 0
    """Of these, the ones whose calls ran no tool."""
    idle_in_row: int = 0
    """Of these, the last ones without a tool that ran in between."""
    turns: int = 0
    forced: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    repeats: tuple[tuple[str, int], ...] = ()
    """Digest of (tool, arguments, result) of the last round -> rounds in a row."""
    called: tuple[str, ...] = ()
    """Real tools run so far, in order."""
    closing: bool = False
    """The next model call is the last and goes without tools."""
    text: str = ""
    finish_reason: str = ""
    model: str = ""
    provider: str = ""
    """The provider that answered last, if it differs from the one asked; otherwise empty."""
    catalog_version: str = ""
    without_model: bool = False
    """One call made directly: the run ends with its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The end of a run. `status` 'pending': a person must approve, then `resume(run_id)`."""

    run_id: str
    status: RunStatus
    text: str
    state: RunState
    selection: Selection | None = None
    client_calls: tuple[ToolCall, ...] = ()
    raw: JsonObject | None = None
    """The provider's last body, for doors that pass unknown fields on."""
    provider: str = ""
    output: Any = None
    """The value of the answer, where the request has an output type."""

    @property
    def usage(self) -> Usage:
        return self.state.usage

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that the run added to the conversation."""
        return self.state.messages[self.state.first_new :]

    @property
    def tool_calls(self) -> tuple[str, ...]:
        """Names of the real tools that ran, in order."""
        return self.state.called
