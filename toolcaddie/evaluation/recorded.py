"""Runs as the trail recorded them: what was asked, what was selected and sent, what was looked for, what was called.

The rows were written by us, but perhaps by another version, and a person may have changed them: each is checked as it is read,
and a run that cannot be read is counted and left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.message import Message, Role
from toolcaddie.core.meta_names import LIST_TOOLS, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.storage import EventRecord, RunQuery, RunSummary
from toolcaddie.core.tool import ToolCall
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.ports import EventLog
from toolcaddie.util.replacing import replace

T = TypeVar("T")

AT_ONCE = 200
"""Runs whose rows are in memory together."""

LOOKED_FOR = (REQUEST_MORE_TOOLS, SEARCH_TOOLS, LIST_TOOLS)
"""Meta tools by which a model looks for what it was not sent."""

_KINDS = (
    "run_started",
    "request_classified",
    "tools_selected",
    "tools_delivered",
    "model_asked",
    "meta_called",
    "call_finished",
    "call_decided",
    "run_finished",
    "run_failed",
    "run_paused",
)
_CUT = re.compile(r"… \[\d+ of \d+ characters kept\]\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A model looked for tools it did not have."""

    by: str
    """The meta tool."""
    words: str
    categories: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A real tool was called, whether it worked or was refused."""

    name: str
    error: str = ""
    """The error; empty if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One model call: what it was sent."""

    tools: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run that selected tools."""

    run_id: str
    started: float
    principal: str
    tenant: str = "default"
    role: str | None = None
    bot: str | None = None
    preset: str = ""
    status: str = "running"
    messages: tuple[Message, ...]
    """The messages that selection read; the last is the one answered."""
    cut: bool = False
    """A message is longer than what is kept of it."""
    catalog_version: str = ""
    catalog_size: int = 0
    selected: tuple[str, ...]
    core: frozenset[str] = frozenset()
    category_of: Mapping[str, str | None] = field(default_factory=dict)
    """Of the selected tools."""
    categories: tuple[str, ...] = ()
    """The categories that gave tools: matched, then related, or the defaults."""
    matched: tuple[str, ...] = ()
    no_match: bool = False
    classified: tuple[str, ...] | None = None
    """Answer of a first stage; None if it was not asked."""
    tokens_all: int = 0
    tokens_selected: int = 0
    sent: tuple[Sent, ...] = ()
    sought: tuple[Sought, ...] = ()
    called: tuple[Called, ...] = ()
    group: str = ""
    """The same for the runs of one conversation, as far as can be told."""

    @property
    def message(self) -> str:
        return self.messages[-1].text

    @property
    def delivered(self) -> frozenset[str]:
        """Everything some model call of the run was sent."""
        return frozenset(name for each in self.sent for name in each.tools)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of tools that were called and exist, each once, in order."""
        return tuple(dict.fromkeys(call.name for call in self.called if call.error != "unknown_tool"))

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of tools that were called although the selection did not have them."""
        had = set(self.selected)
        return tuple(name for name in self.used if name not in had)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Runs of the trail, the oldest first."""

    runs: tuple[RecordedRun, ...]
    unread: int = 0
    """Runs whose rows could not be understood."""


async def read_log(
    log: EventLog, *, limit: int = 100_000, done: Callable[[int, int], None] = lambda read, of: None
) -> Log:
    """The newest `limit` runs that selected tools. `done` is told how many of how many are read.

    Raises `StorageError`.
    """
    recent_runs = list(reversed(await log.runs(RunQuery(limit=limit))))
    runs: list[RecordedRun] = []
    unread = 0
    for start in range(0, len(recent_runs), AT_ONCE):
        some = recent_runs[start : start + AT_ONCE]
        by_run: dict[str, list[EventRecord]] = defaultdict(list)
        for record in await log.records([run.run_id for run in some], _KINDS):
            by_run[record.run_id].append(record)
        for run in some:
            try:
                read = recorded(run, by_run[run.run_id])
            except (msgspec.ValidationError, KeyError, ValueError):
                unread += 1
                continue
            if read is not None:
                runs.append(read)
        done(start + len(some), len(recent_runs))
    return Log(runs=grouped(runs), unread=unread)


class _Principal(msgspec.Struct):
    id: str = ""
    tenant: str = "default"
    role: str | None = None
    bot: str | None = None


class _Said(msgspec.Struct):
    role: Role
    text: str = ""
    characters: int = 0
    called: tuple[str, ...] = ()


class _Started(msgspec.Struct):
    message: str
    principal: _Principal = msgspec.field(default_factory=_Principal)
    preset: str = ""
    catalog_version: str = ""
    catalog_size: int = 0
    history: tuple[_Said, ...] = ()


class _Tool(msgspec.Struct):
    name: str
    category: str | None = None
    core: bool = False


class _Tokens(msgspec.Struct):
    all: int = 0
    selected: int = 0
    sent: int = 0


class _Selected(msgspec.Struct):
    tools: tuple[_Tool, ...]
    categories: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    no_match: bool = False
    tokens: _Tokens = msgspec.field(default_factory=_Tokens)


class _Delivered(msgspec.Struct):
    tools: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    later_by: str = "array"
    tokens: _Tokens = msgspec.field(default_factory=_Tokens)


class _Asked(msgspec.Struct):
    tools: int = 0


class _Meta(msgspec.Struct):
    name: str
    arguments: str = ""
    added: tuple[str, ...] = ()


class _Call(msgspec.Struct):
    name: str
    error: str = ""


class _Finished(msgspec.Struct):
    client_calls: tuple[_Call, ...] = ()


class _Decided(msgspec.Struct):
    name: str
    verdict: str = "allow"


class _Classified(msgspec.Struct):
    how: str = "asked"
    categories: tuple[str, ...] = ()


def recorded(run: RunSummary, events: Iterable[EventRecord]) -> RecordedRun | None:
    """The run of these rows, oldest first; None: it selected no tools (a tool called directly).

    Raises `msgspec.ValidationError` for rows that are not what we write.
    """
    rows: dict[str, list[Any]] = defaultdict(list)
    sent: list[Sent] = []
    delivery, behind, later_by = Sent(tools=(), tokens=0), list[str](), "array"
    for event in events:
        rows[event.kind].append(event.data)
        if event.kind == "tools_delivered":
            delivered = _read(event.data, _Delivered)
            later_by = delivered.later_by
            behind += (*delivered.deferred, *delivered.added)
            delivery = Sent(tools=tuple(dict.fromkeys((*delivered.tools, *behind))), tokens=delivered.tokens.sent)
        elif event.kind == "meta_called" and later_by != "array":  # made known behind the array, which stays as it was
            behind += _read(event.data, _Meta).added
            delivery = replace(delivery, tools=tuple(dict.fromkeys((*delivery.tools, *behind))))
        elif event.kind == "model_asked" and _read(event.data, _Asked).tools:
            sent.append(delivery)
    if not rows["run_started"] or not rows["tools_selected"]:
        return None
    started, selected = _read(rows["run_started"][0], _Started), _read(rows["tools_selected"][0], _Selected)
    classified = [_read(data, _Classified) for data in rows["request_classified"]]
    denied = [
        Called(name=decision.name, error="denied")
        for data in rows["call_decided"]
        if (decision := _read(data, _Decided)).verdict == "deny"
    ]
    calls = [Called(name=call.name, error=call.error) for call in (_read(row, _Call) for row in rows["call_finished"])]
    theirs = [call for data in rows["run_finished"] for call in _read(data, _Finished).client_calls]
    history = tuple(map(_message, started.history))
    return RecordedRun(
        run_id=run.run_id,
        started=run.started,
        principal=started.principal.id,
        tenant=started.principal.tenant,
        role=started.principal.role,
        bot=started.principal.bot,
        preset=started.preset,
        status=run.status,
        messages=(*history, Message(role="user", content=_CUT.sub("", started.message))),
        cut=bool(_CUT.search(started.message)) or any(decision.characters for decision in started.history),
        catalog_version=started.catalog_version,
        catalog_size=started.catalog_size,
        selected=tuple(tool.name for tool in selected.tools),
        core=frozenset(tool.name for tool in selected.tools if tool.core),
        category_of={tool.name: tool.category for tool in selected.tools},
        categories=selected.categories,
        matched=selected.matched,
        no_match=selected.no_match,
        classified=classified[0].categories if classified and classified[0].how != "failed" else None,
        tokens_all=selected.tokens.all,
        tokens_selected=selected.tokens.selected,
        sent=tuple(sent),
        sought=tuple(_sought(_read(data, _Meta)) for data in rows["meta_called"] if data.get("name") in LOOKED_FOR),
        called=(*calls, *denied, *(Called(name=call.name) for call in theirs)),
    )


def grouped(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """The runs with those of one conversation under one name: a run goes on with an earlier one of the same principal if its
    last earlier message of the user is what that one answered."""
    last: dict[tuple[str, str, str], str] = {}
    named = []
    for run in runs:
        before = next((message.text for message in reversed(run.messages[:-1]) if message.role == "user"), None)
        group = last.get((run.tenant, run.principal, before), run.run_id) if before is not None else run.run_id
        last[run.tenant, run.principal, run.message] = group
        named.append(replace(run, group=group))
    return tuple(named)


def labelled(runs: Iterable[RecordedRun], catalog: Catalog) -> list[LabelledRequest]:
    """Requests labelled by what was called for them. A run that called nothing says nothing of which tool fits, nor that none
    does, and is left out; so are tools the catalog has no longer."""
    requests = []
    for run in runs:
        gold = frozenset(name for name in run.used if catalog.position(name) is not None)
        if gold:
            requests.append(LabelledRequest(messages=run.messages, gold=gold, group=run.group or run.run_id))
    return requests


def _read(data: Any, kind: type[T]) -> T:
    return msgspec.convert(data, kind)


def _message(record: _Said) -> Message:
    calls = tuple(ToolCall(id="", name=name) for name in record.called)
    return Message(role=record.role, content=record.text, tool_calls=calls)


class _Arguments(msgspec.Struct):
    query: str = ""
    reason: str = ""
    categories: tuple[str, ...] = ()
    category: str = ""


def _sought(meta: _Meta) -> Sought:
    """Arguments are as the model wrote them: what is no such object is kept as words."""
    try:
        arguments = msgspec.json.decode(meta.arguments, type=_Arguments)
    except msgspec.MsgspecError:
        return Sought(by=meta.name, words=meta.arguments, added=meta.added)
    return Sought(
        by=meta.name,
        words=" ".join(filter(None, (arguments.query, arguments.reason))),
        categories=tuple(filter(None, (*arguments.categories, arguments.category))),
        added=meta.added,
    )
