"""Makes entries of the learning log from runs: while they happen, from their events, or afterwards, from the recorded trail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.core.control import Principal
from toolcaddie.core.events import CallFinished, RunEvent, RunFailed, RunFinished, RunPaused, RunStarted, ToolsSelected
from toolcaddie.core.message import Message, Role
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.learning.entries import CalledTool, LogEntry, called
from toolcaddie.learning.experience import Experience
from toolcaddie.ports import EventLog
from toolcaddie.selection.query import query_words
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger

log = Logger(__name__)

_RUNS = 4_096
"""The largest number of active runs that are followed; if there are more, nothing is learned from the oldest."""
_TEXT_LIMIT = 4_000
"""The largest number of characters of a message that are read, as in the trail."""
_GROWTH = 1.5
"""Factor by which the number of learned requests must grow before the weight of the memory is fitted again."""
_FIRST = 30
"""The number of learned requests after which the weight is fitted for the first time."""
_KINDS = ("run_started", "tools_selected", "call_finished")
"""Kinds of the recorded events that an entry is made of."""
_RUNS_AT_ONCE = 500
"""The number of runs whose events are read from the trail at once."""
_OPENING_LENGTH = 500
"""Characters of a conversation's first message by which the conversation is identified."""

Redact = Callable[[str], str]
"""Returns a text without secrets."""


@dataclass(slots=True)
class _Run:
    """A run that has not ended."""

    words: QueryWords
    principal: Principal
    group: str
    """Identity of the conversation (`_conversation`)."""
    selected: bool = False
    """True after tools were selected for the run."""
    tools: dict[str, None] = field(default_factory=dict)
    """Names of the tools that the run called without an error, in the order of the first calls."""


class LearningSink:
    """An event sink that stores the request of a run, and the tools that it called without an error, when the run ends or pauses.

    `redact` removes secrets from a text before it is stored. `tool_of` returns the current tool of a tenant by its name. `refit`
    fits the weight of the memory again. New indexes are made and `refit` is called in another thread. `window` and `window_user`
    limit the messages before the request that are read, as in the settings of selection.
    """

    def __init__(
        self,
        experience: Experience,
        *,
        redact: Redact,
        tool_of: Callable[[str, str], Tool | None] = lambda tenant, name: None,
        refit: Callable[[], None] = lambda: None,
        window: int = 8,
        window_user: int = 4,
    ) -> None:
        self._experience = experience
        self._redact = redact
        self._tool_of = tool_of
        self._refit = refit
        self._window, self._window_user = window, window_user
        self._runs: Bounded[str, _Run] = Bounded(_RUNS)
        self._next_fit = _FIRST
        self._working: asyncio.Task[None] | None = None

    async def emit(self, event: RunEvent) -> None:
        """Follows each run from its request to its end, and notes the tools that it called without an error."""
        if isinstance(event, RunStarted):
            self._start(event)
        elif isinstance(event, ToolsSelected):
            if (run := self._runs.peek(event.run_id)) is not None:
                run.selected = True
        elif isinstance(event, CallFinished):
            if (run := self._runs.peek(event.run_id)) is not None and not event.result.is_error:
                run.tools[event.call.name] = None
        elif isinstance(event, RunFinished | RunFailed | RunPaused):
            self._end(event.run_id)

    async def settled(self) -> None:
        """Waits until no index is being made and no weight is being fitted in the background."""
        while self._working is not None:
            await asyncio.shield(self._working)

    def _start(self, event: RunStarted) -> None:
        """Begins to follow a run, with the words of its request after secrets were removed."""
        messages = (*event.history, Message(role="user", content=event.message))
        cleaned = [self._cleaned(message) for message in messages]
        query = SelectionQuery(messages=cleaned)
        run = _Run(
            words=query_words(query, window=self._window, window_user=self._window_user),
            principal=event.principal,
            group=_conversation(event.principal, cleaned),
        )
        self._runs.put(event.run_id, run)

    def _cleaned(self, message: Message) -> Message:
        """Returns the beginning of a message without secrets."""
        # A secret at the cut would not be recognised, so more text is redacted than is stored.
        text = self._redact(message.text[: 2 * _TEXT_LIMIT])[:_TEXT_LIMIT]
        return Message(role=message.role, content=text, tool_calls=message.tool_calls)

    def _end(self, run_id: str) -> None:
        """Stores the request of a run that ended or paused, and starts the work in the background if it is due."""
        run = self._runs.pop(run_id)
        if run is None or not run.selected or not run.tools:
            return  # no tools were selected (a direct call), or none were called
        tools = ((name, self._tool_of(run.principal.tenant, name)) for name in run.tools)
        self._experience.add(
            LogEntry(
                words=run.words,
                tools=tuple(CalledTool(name=name) if tool is None else called(tool) for name, tool in tools),
                principal=run.principal,
                group=run.group,
                at=self._experience.now(),
            )
        )
        if self._working is None and (self._experience.due or self._experience.learned >= self._next_fit):
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        """Makes a new index of all entries, and fits the weight of the memory again if the log has grown enough."""
        try:
            await asyncio.to_thread(self._experience.settle)
            if self._experience.learned >= self._next_fit:
                self._next_fit = int(self._experience.learned * _GROWTH)
                await asyncio.to_thread(self._refit)
        except Exception:  # no answer depends on learning
            log.exception("learning_failed")
        finally:
            self._working = None


async def entries_of_trail(trail: EventLog, *, most_runs: int, window: int = 8, window_user: int = 4) -> list[LogEntry]:
    """Returns the entries of the latest recorded runs, at most `most_runs`, the oldest first.

    The trail stores texts shortened and without secrets, as the sink does. It stores only the names of tools, so the entries
    have no digests of definitions.
    """
    runs = [summary.run_id for summary in await trail.runs(RunQuery(limit=most_runs))]
    entries: list[LogEntry] = []
    for start in range(0, len(runs), _RUNS_AT_ONCE):
        batch = runs[start : start + _RUNS_AT_ONCE]
        of_run: dict[str, list[EventRecord]] = {}
        for record in await trail.records(batch, _KINDS):
            of_run.setdefault(record.run_id, []).append(record)
        for run_id in batch:
            try:
                entry = _entry_of(of_run.get(run_id, ()), window, window_user)
            except (AttributeError, KeyError, TypeError, ValueError) as error:  # rows of unknown origin
                log.warning("run_not_learned_from", run_id=run_id, error=str(error))
                continue
            if entry is not None:
                entries.append(entry)
    return entries[::-1]


def _entry_of(records: Sequence[EventRecord], window: int, window_user: int) -> LogEntry | None:
    """Returns the entry of one run, made of its recorded events; None if no tools were selected or none were called."""
    started = next((record for record in records if record.kind == "run_started"), None)
    selected = any(record.kind == "tools_selected" for record in records)
    tools = dict.fromkeys(
        str(record.data["name"])
        for record in records
        if record.kind == "call_finished" and "error" not in record.data and "name" in record.data
    )
    if started is None or not selected or not tools:
        return None
    messages = [_message(recorded) for recorded in started.data.get("history", ())]
    messages.append(Message(role="user", content=str(started.data.get("message", ""))))
    caller = started.data.get("principal") or {}
    principal = Principal(
        id=str(caller.get("id", "local")),
        bot=caller.get("bot"),
        role=caller.get("role"),
        tenant=str(caller.get("tenant", "default")),
    )
    return LogEntry(
        words=query_words(SelectionQuery(messages=messages), window=window, window_user=window_user),
        tools=tuple(CalledTool(name=name) for name in tools),
        principal=principal,
        group=_conversation(principal, messages),
        at=started.at,
    )


def _message(recorded: Mapping[str, Any]) -> Message:
    """Returns a message as the trail has recorded it: with its text and the names of the tools that it called."""
    role: Role = "assistant" if recorded.get("role") == "assistant" else "user"
    calls = tuple(ToolCall(id="", name=str(name)) for name in recorded.get("called", ()))
    return Message(role=role, content=str(recorded.get("text", "")), tool_calls=calls)


def _conversation(principal: Principal, messages: Sequence[Message]) -> str:
    """Returns the identity by which entries of one conversation are grouped, so that they do not count as independent evidence.

    It consists of the owner and the beginning of the first of these messages. `messages` are the request and a limited number of
    messages before it; once a conversation is so long that its first message is not among them, its turns count as another
    conversation.
    """
    return "\0".join((*principal.owner, messages[0].text[:_OPENING_LENGTH]))
