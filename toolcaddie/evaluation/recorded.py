"""Reads recorded runs from the trail, for `toolcaddie eval`: messages, selected and sent tools, the model's searches, and calls.

Another version may have written the rows, and a person may have changed them. So each row is checked when it is read, and a run
that cannot be read is counted and omitted.
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
"""Number of runs whose rows are in memory together."""

SEARCHING_TOOLS = (REQUEST_MORE_TOOLS, SEARCH_TOOLS, LIST_TOOLS)
"""Meta tools with which a model searches for more tools."""

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
"""Kinds of the events that are read."""
_CUT_MARK = re.compile(r"… \[\d+ of \d+ characters kept\]\Z")
"""The mark that the trail puts behind a text that it shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearch:
    """A model's search for tools that it was not sent."""

    by: str
    """Name of the meta tool."""
    words: str
    """The search query."""
    categories: tuple[str, ...] = ()
    """Categories that the model named."""
    added: tuple[str, ...] = ()
    """Names of the tools that the search added to the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call of a tool that is no meta tool, whether it succeeded, failed or was denied."""

    name: str
    error: str = ""
    """The error; empty if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDelivery:
    """The tools sent with one request to the model."""

    tools: tuple[str, ...]
    tokens: int
    """Tokens of their definitions."""


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
    """The messages that selection read. The last one is the message that the run answered."""
    cut: bool = False
    """True if the trail has only the beginning of a message."""
    catalog_version: str = ""
    catalog_size: int = 0
    selected: tuple[str, ...]
    core: frozenset[str] = frozenset()
    category_of: Mapping[str, str | None] = field(default_factory=dict)
    """Category of each selected tool."""
    categories: tuple[str, ...] = ()
    """Categories whose tools were selected: first the matched ones, then related ones; if nothing matched, the defaults."""
    matched: tuple[str, ...] = ()
    """Categories that matched the request."""
    no_match: bool = False
    """True if no category and no tool matched the request."""
    classified: tuple[str, ...] | None = None
    """Categories that a classifier named; None: no classifier answered."""
    tokens_all: int = 0
    """Tokens of the definitions of all tools that the caller could see."""
    tokens_selected: int = 0
    """Tokens of the selected definitions."""
    deliveries: tuple[RecordedDelivery, ...] = ()
    """One for each request to the model that contained tools."""
    sought: tuple[ToolSearch, ...] = ()
    """The model's searches for more tools."""
    called: tuple[RecordedCall, ...] = ()
    conversation: str = ""
    """Digest of the conversation; empty: an older version recorded the run, or it belongs to no conversation."""
    group: str = ""
    """Equal for the runs of one conversation, as far as the trail shows that they belong together."""

    @property
    def message(self) -> str:
        return self.messages[-1].text

    @property
    def delivered(self) -> frozenset[str]:
        """Names of the tools that at least one request to the model contained."""
        return frozenset(name for delivery in self.deliveries for name in delivery.tools)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the called tools that exist, each once, in the order of their first calls."""
        return tuple(dict.fromkeys(call.name for call in self.called if call.error != "unknown_tool"))

    @property
    def expansions(self) -> int:
        """Number of searches that added tools to the run."""
        return sum(bool(search.added) for search in self.sought)

    @property
    def missed(self) -> tuple[str, ...]:
        """Names of tools that were called although they had not been selected."""
        selected = set(self.selected)
        return tuple(name for name in self.used if name not in selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The runs of a trail."""

    runs: tuple[RecordedRun, ...]
    """Runs that selected tools, the oldest first."""
    unread: int = 0
    """Number of runs whose rows could not be read."""


async def read_log(
    log: EventLog,
    *,
    limit: int = 100_000,
    tenant: str | None = None,
    on_progress: Callable[[int, int], None] = lambda count, total: None,
) -> Log:
    """Returns those of the newest `limit` runs that selected tools. `tenant`: only its runs; None: those of all tenants.
    `on_progress` gets the number of runs so far and of all.

    Raises `StorageError`.
    """
    recent_runs = list(reversed(await log.runs(RunQuery(tenant=tenant, limit=limit))))
    runs: list[RecordedRun] = []
    unread = 0
    for start in range(0, len(recent_runs), AT_ONCE):
        batch = recent_runs[start : start + AT_ONCE]
        by_run: dict[str, list[EventRecord]] = defaultdict(list)
        for record in await log.records([run.run_id for run in batch], _KINDS):
            by_run[record.run_id].append(record)
        for run in batch:
            try:
                stored_run = recorded(run, by_run[run.run_id])
            except (msgspec.ValidationError, KeyError, ValueError):
                unread += 1
                continue
            if stored_run is not None:
                runs.append(stored_run)
        on_progress(start + len(batch), len(recent_runs))
    return Log(runs=grouped(runs), unread=unread)


class _PrincipalRow(msgspec.Struct):
    id: str = ""
    tenant: str = "default"
    role: str | None = None
    bot: str | None = None


class _HistoryRow(msgspec.Struct):
    role: Role
    text: str = ""
    characters: int = 0
    called: tuple[str, ...] = ()


class _StartRow(msgspec.Struct):
    message: str
    principal: _PrincipalRow = msgspec.field(default_factory=_PrincipalRow)
    preset: str = ""
    catalog_version: str = ""
    catalog_size: int = 0
    conversation: str = ""
    history: tuple[_HistoryRow, ...] = ()


class _ToolRow(msgspec.Struct):
    name: str
    category: str | None = None
    core: bool = False


class _TokensRow(msgspec.Struct):
    all: int = 0
    selected: int = 0
    sent: int = 0


class _SelectionRow(msgspec.Struct):
    tools: tuple[_ToolRow, ...]
    categories: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    no_match: bool = False
    tokens: _TokensRow = msgspec.field(default_factory=_TokensRow)


class _DeliveryRow(msgspec.Struct):
    tools: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    later_by: str = "array"
    tokens: _TokensRow = msgspec.field(default_factory=_TokensRow)


class _RequestRow(msgspec.Struct):
    tools: int = 0


class _MetaRow(msgspec.Struct):
    name: str
    arguments: str = ""
    added: tuple[str, ...] = ()


class _CallRow(msgspec.Struct):
    name: str
    error: str = ""


class _EndRow(msgspec.Struct):
    client_calls: tuple[_CallRow, ...] = ()


class _DecisionRow(msgspec.Struct):
    name: str
    verdict: str = "allow"


class _ClassificationRow(msgspec.Struct):
    how: str = "asked"
    categories: tuple[str, ...] = ()


def recorded(run: RunSummary, events: Iterable[EventRecord]) -> RecordedRun | None:
    """Returns a run from its rows in the trail. None: it selected no tools, for example because a tool was called directly.

    `events`: the rows, the oldest first. Raises `msgspec.ValidationError` for rows that have another form than expected.
    """
    rows: dict[str, list[Any]] = defaultdict(list)
    deliveries: list[RecordedDelivery] = []
    delivery, later_names, later_by = RecordedDelivery(tools=(), tokens=0), list[str](), "array"
    for event in events:
        rows[event.kind].append(event.data)
        if event.kind == "tools_delivered":
            row = _row_of(event.data, _DeliveryRow)
            later_by = row.later_by
            later_names += (*row.deferred, *row.added)
            delivery = RecordedDelivery(tools=tuple(dict.fromkeys((*row.tools, *later_names))), tokens=row.tokens.sent)
        elif (
            event.kind == "meta_called" and later_by != "array"
        ):  # added tools are sent after the tool array, which does not change
            later_names += _row_of(event.data, _MetaRow).added
            delivery = replace(delivery, tools=tuple(dict.fromkeys((*delivery.tools, *later_names))))
        elif event.kind == "model_asked" and _row_of(event.data, _RequestRow).tools:
            deliveries.append(delivery)
    if not rows["run_started"] or not rows["tools_selected"]:
        return None
    start, selection = _row_of(rows["run_started"][0], _StartRow), _row_of(rows["tools_selected"][0], _SelectionRow)
    classifications = [_row_of(data, _ClassificationRow) for data in rows["request_classified"]]
    denials = [
        RecordedCall(name=decision.name, error="denied")
        for data in rows["call_decided"]
        if (decision := _row_of(data, _DecisionRow)).verdict == "deny"
    ]
    calls = [
        RecordedCall(name=call.name, error=call.error)
        for call in (_row_of(row, _CallRow) for row in rows["call_finished"])
    ]
    client_calls = [call for data in rows["run_finished"] for call in _row_of(data, _EndRow).client_calls]
    history = tuple(map(_message, start.history))
    return RecordedRun(
        run_id=run.run_id,
        started=run.started,
        principal=start.principal.id,
        tenant=start.principal.tenant,
        role=start.principal.role,
        bot=start.principal.bot,
        preset=start.preset,
        status=run.status,
        messages=(*history, Message(role="user", content=_CUT_MARK.sub("", start.message))),
        cut=bool(_CUT_MARK.search(start.message)) or any(message.characters for message in start.history),
        catalog_version=start.catalog_version,
        catalog_size=start.catalog_size,
        conversation=start.conversation,
        selected=tuple(tool.name for tool in selection.tools),
        core=frozenset(tool.name for tool in selection.tools if tool.core),
        category_of={tool.name: tool.category for tool in selection.tools},
        categories=selection.categories,
        matched=selection.matched,
        no_match=selection.no_match,
        classified=classifications[0].categories if classifications and classifications[0].how != "failed" else None,
        tokens_all=selection.tokens.all,
        tokens_selected=selection.tokens.selected,
        deliveries=tuple(deliveries),
        sought=tuple(
            _search_of(_row_of(data, _MetaRow)) for data in rows["meta_called"] if data.get("name") in SEARCHING_TOOLS
        ),
        called=(*calls, *denials, *(RecordedCall(name=call.name) for call in client_calls)),
    )


def grouped(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """Returns the runs with their `group`, which is equal for the runs of one conversation.

    A run continues an earlier run of the same principal if the last user message in its history is the message that the earlier
    run answered.
    """
    last: dict[tuple[str, str, str], str] = {}
    grouped_runs = []
    for run in runs:
        last_text = next((message.text for message in reversed(run.messages[:-1]) if message.role == "user"), None)
        group = last.get((run.tenant, run.principal, last_text), run.run_id) if last_text is not None else run.run_id
        last[run.tenant, run.principal, run.message] = group
        grouped_runs.append(replace(run, group=group))
    return tuple(grouped_runs)


def labelled(runs: Iterable[RecordedRun], catalog: Catalog) -> list[LabelledRequest]:
    """Returns requests labelled with the tools that their runs called.

    A run without calls is omitted, because it shows neither which tool fits nor that none does. Tools that the catalog no
    longer has are omitted as well.
    """
    requests = []
    for run in runs:
        gold = frozenset(name for name in run.used if catalog.position(name) is not None)
        if gold:
            requests.append(
                LabelledRequest(messages=run.messages, gold=gold, group=run.group or run.run_id, run_id=run.run_id)
            )
    return requests


def _row_of(data: Any, kind: type[T]) -> T:
    return msgspec.convert(data, kind)


def _message(record: _HistoryRow) -> Message:
    calls = tuple(ToolCall(id="", name=name) for name in record.called)
    return Message(role=record.role, content=record.text, tool_calls=calls)


class _Arguments(msgspec.Struct):
    query: str = ""
    reason: str = ""
    categories: tuple[str, ...] = ()
    category: str = ""


def _search_of(meta: _MetaRow) -> ToolSearch:
    """Returns the search of a call of a meta tool. If the arguments are not the expected object, their text becomes the query."""
    try:
        arguments = msgspec.json.decode(meta.arguments, type=_Arguments)
    except msgspec.MsgspecError:
        return ToolSearch(by=meta.name, words=meta.arguments, added=meta.added)
    return ToolSearch(
        by=meta.name,
        words=" ".join(filter(None, (arguments.query, arguments.reason))),
        categories=tuple(filter(None, (*arguments.categories, arguments.category))),
        added=meta.added,
    )
