"""A run is the processing of one request until its answer. This file has the caller's request, the limits of a run, its state
between two steps, and its result."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcaddie.core.bots import NOTHING_INHERITED, Inherited, Mode
from toolcaddie.core.catalog import View
from toolcaddie.core.claims import Claim
from toolcaddie.core.client import CallerClient
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.delivery import AddedBy, DeliveredTool, Settled
from toolcaddie.core.message import Message, RawBody
from toolcaddie.core.numbers import Count, OneToTen, Positive, Seconds, TwoOrMore, UpToTen
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import Ending, Tool, ToolCall, ToolResult
from toolcaddie.core.usage import Usage
from toolcaddie.core.vocabulary import WireName


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Independent limits of a run; None: off."""

    rounds: OneToTen | None = 5
    """The largest number of model calls with tools. After the last one the model is called once more, without tools."""
    looking_rounds: Count = 3
    """The largest number of model calls in which the model only looked for tools and which do not count as `rounds`. Their tokens
    and seconds count."""
    calls: Positive | None = 75
    """The largest number of executed tool calls, without meta tools. The next call is refused and the run fails."""
    idle_rounds: Positive | None = 75
    """The largest number of model calls after which no tool ran, because the model called only meta tools or unknown names or its
    calls were refused. At the limit the run fails."""
    idle_rounds_in_row: Positive | None = 25
    """The largest number of such model calls in a row, without a tool that ran in between."""
    forced_attempts: Positive = 3
    """The largest number of model calls until the first tool call, if tool use is forced."""
    seconds: Seconds | None = 300.0
    tokens: Positive | None = None
    """Tokens of all model calls together, by the provider's count. At the limit the run fails before the next model call."""
    tool_seconds: Seconds = 30.0
    """Timeout in seconds of tools that have no timeout of their own."""
    tool_seconds_most: Seconds | None = None
    """Upper bound in seconds for the timeouts of all tools."""
    tool_retries: UpToTen = 0
    """The largest number of retries of a failed call, for tools that are safe to run again."""
    result_bytes: Positive = 100_000
    """Size in bytes above which a result is truncated, with a note."""
    result_media_bytes: Count = 4_000_000
    """Bytes of the pictures, sounds and files of a result, in base64. Media beyond the limit are replaced by a sentence."""
    repeats_warn: TwoOrMore | None = 3
    """Number of equal rounds in a row (same tool, arguments and result) from which the model is warned."""
    repeats_stop: TwoOrMore | None = 5
    """Number of equal rounds in a row from which the run is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Identity of a conversation whose client sends all its messages again with every request (`core.transcript` makes the
    digests).

    The client also sends the results of its own tools with the next request. So a run that ends with calls of the client's tools
    is not stored for `Runtime.resume`.
    """

    digest: str
    """Digest of the conversation as the client sent it."""
    answered: str | None = None
    """Digest of the conversation up to the last answer in it, under which the previous turn was stored; None: there is no
    answer."""
    name: str = ""
    """The client's own name for the conversation; empty: it has none."""

    @property
    def previous_name(self) -> str | None:
        """The name under which the previous turn was stored."""
        return self.name or self.answered


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The request of a caller.

    `messages` ends with the message to answer. `client_tools` are run by the caller: a call of one ends the run and
    is returned in `RunResult.client_calls`. `params` is passed to the provider unchanged.
    """

    messages: Sequence[Message]
    principal: Principal = Principal()
    model: str | None = None
    preset: str | None = None
    client_tools: Sequence[Tool] = ()
    use_catalog: bool = True
    """False: only `client_tools` are offered."""
    tool_choice: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    conversation: str | Transcript | None = None
    """The caller's own name for this conversation, or its digests. With either, the tool array stays the same from turn to turn,
    so that the provider's cache stays valid."""
    window: str = ""
    """The part of a named conversation whose messages are still sent. What was sent and read in earlier parts no longer counts.
    Empty: the conversation has one part."""
    cache_key: str = ""
    """Key by which a provider may route the requests of this conversation; empty: the conversation's name is the key."""
    remember: bool = True
    """False: the caller stores the conversation: it passes `delivered`, and the results of its own tools come with a new
    request, not through `Runtime.resume`."""
    delivered: Sequence[DeliveredTool] = ()
    """Tools sent earlier in the conversation, if the caller stores it."""
    categories: Sequence[str] | None = None
    """Categories to use instead of matching the message."""
    max_tools: int | None = None
    """Limit of the tools selected for this request, without core and meta tools; None: the preset's."""
    disabled_tools: Sequence[str] = ()
    essential: Mapping[str, str] = field(default_factory=dict)
    """Tools that are always sent, each with the reason that `why` shows. `max_tools` does not count them; the provider's cap
    does. If a tool of the caller is among them, the model can call it in the last round too."""
    tags: Sequence[str] | None = None
    """Only tools with one of these tags (`collab_safe`) exist for this request; None: all tools. The prompt is not changed,
    even if it mentions other tools."""
    output: Any = None
    """The type of the answer: a pydantic model, a dataclass, a TypedDict or another type, or a JSON schema; None: text."""
    dependencies: Sequence[Any] = ()
    """Objects for the tools of this request, found by type. They take precedence over the objects of the runtime."""
    injected: Mapping[str, Any] = field(default_factory=dict)
    """Arguments (`_chatId`, `_botId`) that are added to every call of a catalog tool. They override arguments from the model."""
    client_wire: WireName | None = None
    """The wire (API format) of the caller's own client. If the provider uses it too, streamed events contain the provider's."""
    mode: Mode = "conversation"
    """Why the bot of the principal runs; a bot may have other tools in each mode."""
    inherited: Inherited = NOTHING_INHERITED
    """The limits that the run has from the run, or the job, that began it."""
    recalled: bool = False
    """True: what the bot remembers was looked up for this request. If anything fits, it is in a message near the end."""
    durable: bool = False
    """True: the run is stored from its beginning and after each step, so that `Runtime.resume` continues it after a crash."""
    survives: bool = False
    """True: the run is stored once a call of it is about to act, for the same purpose. Before that, it can begin again."""
    run_id: str | None = None
    lease: int | None = None
    """Number of the lease under which work was claimed for this run. The run begins only while this process holds that lease.
    None: no lease is needed."""

    @property
    def conversation_name(self) -> str:
        """The caller's own name for the conversation; empty: it has none."""
        return self.conversation.name if isinstance(self.conversation, Transcript) else self.conversation or ""

    @property
    def is_kept(self) -> bool:
        """True if whoever began the run asks for its answer until it has it, and then forgets the run."""
        return self.durable or self.survives

    @property
    def is_resumable(self) -> bool:
        """True if a run that ends with calls of the caller's own tools is stored for `Runtime.resume`."""
        return self.remember and not isinstance(self.conversation, Transcript)


ReportProgress = Callable[[float, float | None, str], Awaitable[None]]
"""Takes the amount done, the total (None: unknown), and a message for people."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The facts about a run that do not change. A tool gets a copy for its call, with the remaining calls and the deadline."""

    run_id: str
    principal: Principal
    view: View
    model: str
    conversation: str = ""
    """The caller's own name for the conversation; empty: it has none. Names of different principals may be equal."""
    params: Mapping[str, Any] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    tool_choice: Any = None
    essential: Sequence[str] = ()
    injected: Mapping[str, Any] = msgspec.field(default_factory=dict)
    cache_key: str = ""
    client_wire: WireName | None = None
    mode: Mode = "conversation"
    inherited: Inherited = NOTHING_INHERITED
    """What limits the run in addition to its preset, because another run or a job began it."""
    recalled: bool = False
    """True: what the bot remembers was looked up before the run."""
    offered: tuple[str, ...] = ()
    """Names of the tools that the run begins with, which the system prompt may speak of."""
    dependencies: Mapping[type, Any] = msgspec.field(default_factory=dict)
    """Objects from the application for tools, by declared type."""
    variables: dict[str, Any] = msgspec.field(default_factory=dict)
    """Scratch values for the tools of this run; discarded with it."""
    taint: tuple[str, ...] = ()
    """For a call: the tools whose untrusted results the model had read before it made the call."""
    calls_left: int | None = None
    """Tool calls that the run may still make after this one; None: any number. For a tool that begins runs, those that follow in
    the same answer are not among them."""
    tokens_left: int | None = None
    """Tokens that the run may still use after the answer that made this call; None: any number."""
    deadline: float | None = None
    """Moment on the monotonic clock at which this call is cancelled; None: no deadline."""
    on_progress: ReportProgress | None = None
    """Takes the progress of this call; None: no one listens."""
    client: CallerClient | None = None
    """The client of the call, if it can answer questions of a tool; None: it cannot."""
    began: float = msgspec.field(default_factory=time.monotonic)
    """Start of the run on the monotonic clock. For a resumed run it is later by the length of the pause, which does not count."""

    def __repr__(self) -> str:
        """Omits the objects of the application, because they may contain secrets."""
        return f"RunContext(run_id={self.run_id!r}, principal={self.principal!r}, model={self.model!r})"

    @property
    def elapsed(self) -> float:
        """Duration of the run so far in seconds."""
        return time.monotonic() - self.began

    async def report_progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Reports the progress of this call to the run's listeners."""
        if self.on_progress is not None:
            await self.on_progress(done, total, message)


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the model's last answer, with its result or the reason why it waits."""

    call: ToolCall
    result: ToolResult | None = None
    waiting: Literal["", "approval", "client"] = ""
    """The party whose answer the call waits for; empty: it does not wait."""
    decision: Decision | None = None
    """The policy's decision `ask`, for a call that waits for a person."""
    approval: str = ""
    """Id of the approval that the call waits for (`ports.ApprovalStore`)."""
    program: str = ""
    """Id of the call of `run_program` whose program makes this call; empty: the model makes it."""
    began: float = 0.0
    """For a call of `run_program`: the time at which its program began, in seconds since the epoch."""
    tool_digest: str = ""
    """Digest of the tool as it was when a person was asked about the call. The call runs only if the tool is still the same."""


RunStatus = Literal["running", "completed", "client_calls", "pending", "failed"]


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run between two steps. It is plain data: it can be encoded with msgspec, stored, decoded and continued."""

    run_id: str
    status: RunStatus = "running"
    messages: tuple[Message, ...] = ()
    first_new: int = 0
    """Index in `messages` of the first message that this run added."""
    delivered: tuple[DeliveredTool, ...] = ()
    meta: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """Tools that messages have announced after the array."""
    referenced: tuple[str, ...] = ()
    """The `known` tools that were announced by the provider's own mechanism."""
    allowed: tuple[str, ...] | None = None
    """Delivered tools that may be called, if the provider masks; None: all."""
    later_by: AddedBy = "array"
    """The place where tools that join later are announced."""
    categories: tuple[str, ...] = ()
    """Categories from a first stage, for the next turn."""
    settled: Settled | None = None
    """Decisions on the delivery of tools for every round of the run."""
    prefix_digest: str = ""
    """Digest of the last tool array; only a changed array is recorded again."""
    revealed: tuple[str, ...] = ()
    """Tools found by the last meta call."""
    pending: tuple[PendingCall, ...] = ()
    """Calls in progress; empty between rounds."""
    rounds: int = 0
    looking_rounds: int = 0
    """Rounds in which the model only looked for tools."""
    idle_rounds: int = 0
    """Rounds whose calls ran no tool."""
    idle_in_row: int = 0
    """Idle rounds since the last tool that ran."""
    calls: int = 0
    """Executed calls of real tools."""
    forced: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    repeats: tuple[tuple[str, int], ...] = ()
    """For each digest of (tool, arguments, result) of the last round, the number of rounds in a row that contain it."""
    called: tuple[str, ...] = ()
    """Real tools run so far, in order."""
    succeeded: tuple[str, ...] = ()
    """Those of `called` with a successful call, each once."""
    taint: tuple[str, ...] = ()
    """Tools whose untrusted results the model has read, in this turn of the conversation or before."""
    waits_for: str = ""
    """An earlier run of the conversation that still waits for a person; empty: there is none."""
    closing: bool = False
    """True: the next model call is the last one and has no tools."""
    text: str = ""
    ending: Ending | Literal[""] = ""
    """The kind of `text`, if a tool ended the run with it: `respond` gives `answer`, a tool with `Tool.ends_run` any. Empty: no
    tool ended the run."""
    finish_reason: str = ""
    model: str = ""
    provider: str = ""
    """The provider that answered last, if it is not the one that was asked; otherwise empty."""
    catalog_version: str = ""
    without_model: bool = False
    """True for a run that calls one tool without a model and ends with the result of that call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run. With status 'pending' a person must first approve a call; then `Runtime.resume` continues the run."""

    run_id: str
    status: RunStatus
    text: str
    state: RunState
    selection: Selection | None = None
    client_calls: tuple[ToolCall, ...] = ()
    raw: RawBody | None = None
    """Fields of the provider's last answer; the gateway passes the unknown ones on."""
    provider: str = ""
    output: Any = None
    """The parsed answer, if the request has an output type."""
    unsupported_claims: tuple[Claim, ...] = ()
    """What the answer says was done although no call that could have done it succeeded. The text itself is unchanged."""

    @property
    def usage(self) -> Usage:
        return self.state.usage

    @property
    def ending(self) -> Ending | Literal[""]:
        """The kind of `text`, if a tool ended the run with it: an answer, a question to the user, or a refusal. Empty: no tool
        ended the run, so `text` is the model's answer in its own words."""
        return self.state.ending

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that the run added to the conversation."""
        return self.state.messages[self.state.first_new :]

    @property
    def tool_calls(self) -> tuple[str, ...]:
        """Names of the real tools that ran, in order."""
        return self.state.called
