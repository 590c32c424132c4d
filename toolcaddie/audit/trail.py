"""Turns the events of runs into rows of the audit trail, the durable record of each run.

A row is small, and has the facts that a person needs afterwards. Secrets are redacted. Events that only show progress are not
stored: a `TextDelta`, for example, is part of an answer that is stored whole. For each kind of event, a function of this module
returns the data that is stored; the table `_DATA` lists them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import attrgetter
from typing import Any, Literal

from toolcaddie.audit.redact import MAX_PARSED, redact_json, redact_text
from toolcaddie.core.content import (
    Audio,
    Content,
    Image,
    Resource,
    Video,
    block_kind,
    byte_size,
    media_of,
    shown_text,
    text_of,
)
from toolcaddie.core.control import Principal
from toolcaddie.core.delivery import DeliveryOption, ExpectedBill
from toolcaddie.core.events import (
    ApprovalApplied,
    ApprovalClosed,
    CallDecided,
    CallFinished,
    CallIntended,
    CallSettled,
    CallUnknown,
    ClaimsUnsupported,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RequestClassified,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt, Message
from toolcaddie.core.run import PendingCall, RunState
from toolcaddie.core.selection import DroppedTool, SelectedTool, Selection
from toolcaddie.core.storage import EventRecord, SharedRows
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.core.usage import Usage
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import EventLog
from toolcaddie.util.bounded import Bounded, Limit

TEXT_LIMIT = 4_000
"""Largest number of characters stored of a text, of arguments or of a result."""

HISTORY_LIMIT = 1_000
"""Largest number of characters stored of an earlier message; enough to repeat a selection."""

DROPPED_LIMIT = 50
"""Largest number of dropped tools that a row lists by name, the best tools first. All further dropped tools are only counted."""

_REASONS = 5
"""Largest number of reasons stored for a selected tool."""
_CALLED = 5
"""Largest number of calls stored by name for an earlier message."""
_DIGITS = 6
"""Digits after the decimal point of numbers."""
_NAMES = 200
"""Largest number of names in any other list of a row."""
_MEDIA = 20
"""Largest number of pictures, sounds and files of a result whose digests are stored."""
_ATTEMPTS = 50
"""Largest number of requests to models stored for one answer."""

_MOST_RUNS = 10_000
"""Largest number of active runs whose last row number is held in memory."""
_MOST_WHOLE = 64
"""Largest number of whole selections whose stored form is held in memory."""
_MOST_WHOLE_TOOLS = 10_000
"""Largest number of tools in these selections together."""
_MARGIN = 2_000
"""Smallest number of characters after a limit that are redacted too."""

_AFTER_OTHERS = frozenset({ApprovalClosed, CallSettled, RunResumed})
"""Events before which another process may have written rows of the run."""
_DURABLE = frozenset({CallIntended, ApprovalClosed, ApprovalApplied, CallSettled})
"""Events whose row must be on disk before the run continues."""
_ENDS = frozenset({RunFinished, RunFailed, RunPaused})
"""Events after which a run writes no more rows in this process."""

Data = dict[str, Any]


class Trail:
    """The sink of events that writes the audit trail. Raises `AuditError` if the log cannot write.

    `durable` sets the events at which `emit` waits until their rows are on disk. With `intent`, it waits before each call that
    may change something, at a person's answer, and if a run pauses until a person approves a call. With `answer`, it also waits
    at the end of a run, so that no answer is returned whose rows could still be lost.

    The rows of a run are numbered from 1. If another process continues the run, it reads the last number from the log. If two
    processes write rows of one run at the same moment, such as the answers of two people, the log gives the later one the next
    free number.
    """

    def __init__(
        self,
        log: EventLog,
        clock: Callable[[], float] = time.time,
        *,
        durable: Literal["intent", "answer"] = "intent",
    ) -> None:
        self._log = log
        self._clock = clock
        self._durable = durable
        self.takes = frozenset(_DATA)
        self._last: Bounded[str, _Last] = Bounded(_MOST_RUNS)
        """Run id -> number of the run's last row, for active runs. If a run is evicted, the number is read from the log again."""

    async def emit(self, event: RunEvent) -> None:
        """Appends the event's row to the log. Events that are not stored are ignored."""
        kind = type(event)
        data_of = _DATA.get(kind)
        if data_of is None:
            return
        last = self._last.get(event.run_id)
        if kind in _AFTER_OTHERS or (last is None and kind is not RunStarted):
            last = await self._loaded(event.run_id)
        elif last is None:
            last = self._last.put_if_absent(event.run_id, _Last())
        last.seq += 1
        record = EventRecord(
            run_id=event.run_id, seq=last.seq, at=self._clock(), kind=_KINDS[kind], data=data_of(event)
        )
        self._log.append(record)
        if kind in _DURABLE:
            await self._flush_or_withdraw(record)
        elif kind in _ENDS:
            self._last.pop(event.run_id)
            if self._durable == "answer" or _asks_a_person(event):
                await self._log.flush(event.run_id)

    async def _flush_or_withdraw(self, record: EventRecord) -> None:
        """Waits until the row of an intended call, or of a person's answer, is on disk.

        If that fails or is cancelled, the call does not run, or the answer does not count. Then the row is withdrawn, so that no
        later write stores it.
        """
        try:
            await self._log.flush(record.run_id)
        except BaseException:
            self._log.withdraw(record)
            raise

    async def _loaded(self, run_id: str) -> _Last:
        """Reads the number of the run's last row from the log."""
        records = await self._log.events(run_id)
        last = self._last.put_if_absent(run_id, _Last())
        # The calls of an answer run concurrently, so another event of this run may have used a number meanwhile.
        last.seq = max(last.seq, *(record.seq for record in records), 0)
        return last


@dataclass(slots=True)
class _Last:
    """The number of a run's last row. The object stays the same while the run is active, because a store of the number at each
    row would take longer than the row."""

    seq: int = 0


def kind_of(event: type) -> str:
    """Returns the kind of an event class: `RunStarted` -> `run_started`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def _asks_a_person(event: RunEvent) -> bool:
    """Returns True if the run pauses until a person approves a call. Another process may record the person's answer at once."""
    return isinstance(event, RunPaused) and any(item.waiting == "approval" for item in event.state.pending)


def _run_started(event: RunStarted) -> Data:
    history = [_message(message) for message in event.history if message.role in ("user", "assistant")]
    return {
        "principal": _principal(event.principal),
        "preset": event.preset,
        "model": event.model,
        "message": _text(event.message),
        "catalog_version": event.catalog_version,
        "catalog_size": event.catalog_size,
        **({"conversation": event.conversation} if event.conversation else {}),
        **({"history": history} if history else {}),
    }


def _request_classified(event: RequestClassified) -> Data:
    """Data of the first stage, a model call that names the categories of a request. `how`: asked, kept (from the turn before) or
    failed."""
    classification = event.classification
    return {
        "how": classification.how,
        "categories": classification.categories,
        "detail": _text(classification.detail),
        "model": classification.model,
        "usage": _usage(classification.usage),
        "seconds": _round(classification.seconds),
    }


def _tools_selected(event: ToolsSelected) -> Data:
    """Data of the selection of tools: the selected tools with their reasons, and the dropped ones with the stage that dropped
    them.

    `matched`: the categories that fitted the request. `starved`: those of them that got no tool. `shadowed`: catalog tools that
    the client replaced by its own tools of the same names. `degraded`: what did not work, and what selected in its place.
    """
    selection = event.selection
    return {
        "tools": _tools(selection),
        "dropped": [_dropped(tool) for tool in nlargest(DROPPED_LIMIT, selection.dropped, key=attrgetter("score"))],
        "dropped_by_stage": Counter(tool.stage for tool in selection.dropped),
        "categories": selection.categories,
        "matched": selection.matched,
        "no_match": selection.no_match,
        "starved": selection.starved,
        **({"shadowed": selection.shadowed[:_NAMES]} if selection.shadowed else {}),
        **({"degraded": [_text(sentence) for sentence in selection.degraded]} if selection.degraded else {}),
        "counts": {"catalog": selection.catalog_size, "selected": len(selection.tools)},
        "tokens": {"all": selection.tokens_all, "selected": selection.tokens_selected},
        "seconds": _round(selection.seconds),
    }


def _tools_delivered(event: ToolsDelivered) -> Data:
    """Data of the delivery, the way in which the selected tools are sent to the model.

    `slim`: tools with a shortened schema. `reused`: True if the provider's cached prefix is still valid. `deferred`: tools that
    the model sees only after a message reveals them. `allowed`: the tools that may be called. `added_by`, `later_by`: the place
    where added tools, and tools that join later, are announced. `options` and `bill`: the costs that the planner compared and
    expects.
    """
    delivery = event.delivery
    return {
        "round": event.round,
        "strategy": delivery.strategy,
        "meta": delivery.meta,
        "tools": [tool.name for tool in delivery.tools],
        "slim": [tool.name for tool in delivery.tools if tool.slim],
        "reused": delivery.reused,
        "prefix_digest": delivery.prefix_digest,
        "tokens": {"all": delivery.tokens_all, "sent": delivery.tokens},
        "note": delivery.note,
        "later_by": delivery.later_by,
        **({"deferred": sorted(delivery.deferred)[:_NAMES]} if delivery.deferred else {}),
        **({} if delivery.allowed is None else {"allowed": delivery.allowed[:_NAMES]}),
        **({"added": delivery.added, "added_by": delivery.added_by} if delivery.added else {}),
        **({"options": [_option(option) for option in delivery.options]} if delivery.options else {}),
        **({} if delivery.bill is None else {"bill": _bill(delivery.bill)}),
    }


def _option(option: DeliveryOption) -> Data:
    """Data of a delivery that the planner compared. `rebilled`: tokens of the conversation that it makes the provider bill in
    full; `expected`: the cost of the tools until the conversation ends, in tokens of fresh input."""
    return {
        "name": option.name,
        "strategy": option.strategy,
        "tools": option.tools,
        "tokens": option.tokens,
        "rebilled": option.rebilled,
        "expected": _round(option.expected),
        "dollars": option.dollars,
    }


def _bill(bill: ExpectedBill) -> Data:
    """Data of the expected bill for the next request: tokens read from the cache, written to it, and billed without it."""
    return {"read": bill.read, "written": bill.written, "plain": bill.plain, "dollars": bill.dollars}


def _model_asked(event: ModelAsked) -> Data:
    return {"round": event.round, "provider": event.provider, "model": event.model, "tools": event.tools}


def _model_answered(event: ModelAnswered) -> Data:
    return {
        "round": event.round,
        "text": _text(event.text),
        "calls": [_call(call) for call in event.calls],
        "finish_reason": event.finish_reason,
        "usage": _usage(event.usage),
        "model": event.model,
        "seconds": _round(event.seconds),
        **({"provider": event.provider} if event.provider else {}),
        **_attempts(event.attempts),
    }


def _attempts(attempts: Sequence[Attempt]) -> Data:
    return {"attempts": [_attempt(attempt) for attempt in attempts[:_ATTEMPTS]]} if attempts else {}


def _attempt(attempt: Attempt) -> Data:
    """Data of one request to a model, if an answer took several. `how`: the step that was to force a tool call, or `plain`."""
    return {
        "provider": attempt.provider,
        "model": attempt.model,
        "how": attempt.how,
        "outcome": attempt.outcome,
        "detail": _text(attempt.detail),
        "usage": _usage(attempt.usage),
        "seconds": _round(attempt.seconds),
    }


def _meta_called(event: MetaCalled) -> Data:
    return {**_call(event.call), **_result(event.result), "added": event.added}


def _call_decided(event: CallDecided) -> Data:
    """Data of the policy's decision about a call. `dropped`: arguments from the model that only the application may set. `taint`:
    tools whose untrusted results the model had read. `effects`: what the call would do to the world."""
    decision = event.decision
    return {
        **_call(event.call),
        "verdict": decision.verdict,
        "reason": _text(decision.reason),
        "rule": decision.rule,
        "policy_version": _text(decision.policy_version),
        **({"dropped": [_text(name) for name in event.dropped[:_NAMES]]} if event.dropped else {}),
        **({"taint": [_text(name) for name in event.taint[:_NAMES]]} if event.taint else {}),
        **({"effects": [_text(effect) for effect in event.effects[:_NAMES]]} if event.effects else {}),
    }


def _approval_closed(event: ApprovalClosed) -> Data:
    """Data of a question about a call that a person has answered or that has expired. `asked`, `closed`: seconds since the
    epoch."""
    approval = event.approval
    return {
        "id": approval.call_id,
        "name": approval.tool,
        "approval": approval.id,
        "status": approval.status,
        "by": "" if approval.answered_by is None else _text(approval.answered_by.id),
        "reason": _text(approval.answer_reason),
        "asked": approval.created,
        "closed": approval.expires if approval.answered is None else approval.answered,
        "policy_version": _text(approval.policy_version),
    }


def _approval_applied(event: ApprovalApplied) -> Data:
    """Data of an answer that decided a call of the run. `asked_in`: the run that put the question; `channel`: the way in by which
    the person answered; `answered`: seconds since the epoch."""
    approval = event.approval
    person = approval.answered_by
    return {
        "id": event.call_id,
        "name": approval.tool,
        "approval": approval.id,
        "status": "refused" if approval.status == "refused" else "approved",
        "by": "" if person is None else _text(person.id),
        "channel": "" if person is None else _text(person.channel or ""),
        "reason": _text(approval.answer_reason),
        "asked_in": approval.run_id,
        "answered": approval.answered,
    }


def _call_intended(event: CallIntended) -> Data:
    return _call(event.call)


def _call_finished(event: CallFinished) -> Data:
    return {
        **_call(event.call),
        **_result(event.result),
        "source": event.source,
        "seconds": _round(event.seconds),
        "number": event.number,
    }


def _call_unknown(event: CallUnknown) -> Data:
    return {**_call(event.call), "reason": event.reason}


def _call_settled(event: CallSettled) -> Data:
    return {
        **_call(event.call),
        "took_effect": event.took_effect,
        "text": _text(event.text),
        "reason": _text(event.reason),
        "by": _text(event.by.id),
    }


def _limit_reached(event: LimitReached) -> Data:
    return {"limit": event.limit, "detail": _text(event.detail)}


def _run_paused(event: RunPaused) -> Data:
    return {"status": "pending", **_state(event.state), "waiting": [_waiting(item) for item in event.state.pending]}


def _principal(principal: Principal) -> Data:
    """Returns who asks, as an application, an identity provider or a channel names them."""
    names = {
        "id": principal.id,
        "bot": principal.bot,
        "role": principal.role,
        "tenant": principal.tenant,
        "channel": principal.channel,
    }
    return {key: None if name is None else _plain(name) for key, name in names.items()}


def _run_resumed(event: RunResumed) -> Data:
    return {"status": "running", "principal": _plain(event.principal.id), "answered": event.answered[:_NAMES]}


def _claims_unsupported(event: ClaimsUnsupported) -> Data:
    """Data of what an answer says was done although no successful call supports it. `action`: the class of what was done."""
    return {"claims": [{"action": claim.action, "text": _text(claim.text)} for claim in event.claims[:_NAMES]]}


def _run_finished(event: RunFinished) -> Data:
    result = event.result
    return {
        "status": result.status,
        "text": _text(result.text),
        **({"ending": result.ending} if result.ending else {}),
        "provider": result.provider,
        "client_calls": [_call(call) for call in result.client_calls],
        **_state(result.state),
    }


def _run_failed(event: RunFailed) -> Data:
    counters = {} if event.state is None else _state(event.state)
    attempts = _attempts(event.attempts)
    return {"status": "failed", "error": _text(event.error), "kind": event.kind, **attempts, **counters}


_DATA: Mapping[type, Callable[[Any], Data]] = {
    RunStarted: _run_started,
    RequestClassified: _request_classified,
    ToolsSelected: _tools_selected,
    ToolsDelivered: _tools_delivered,
    ModelAsked: _model_asked,
    ModelAnswered: _model_answered,
    MetaCalled: _meta_called,
    CallDecided: _call_decided,
    ApprovalClosed: _approval_closed,
    ApprovalApplied: _approval_applied,
    CallIntended: _call_intended,
    CallFinished: _call_finished,
    CallUnknown: _call_unknown,
    CallSettled: _call_settled,
    LimitReached: _limit_reached,
    RunPaused: _run_paused,
    RunResumed: _run_resumed,
    ClaimsUnsupported: _claims_unsupported,
    RunFinished: _run_finished,
    RunFailed: _run_failed,
}
"""Class of an event -> function that returns the data to store. Events that are not stored, such as `TextDelta`, are missing."""

_KINDS = {event: kind_of(event) for event in _DATA}


def _tools(selection: Selection) -> list[Data]:
    """Returns the stored form of the selected tools. That of a catalog that is sent whole is made once, because all requests have
    the same selection."""
    tools = selection.tools
    if len(tools) != selection.catalog_size or selection.dropped:
        return _rows(tools)
    if (whole := _WHOLE.get(id(tools))) is None:
        whole = (tools, SharedRows(_rows(tools)))
        _WHOLE.put(id(tools), whole)
    return whole[1]


_WHOLE: Bounded[int, tuple[tuple[SelectedTool, ...], SharedRows]] = Bounded(
    _MOST_WHOLE, Limit(_MOST_WHOLE_TOOLS, lambda whole: len(whole[1]))
)
"""The stored form of whole selections by the `id` of their tools, which are kept here, so that no other object gets this id."""


def _rows(tools: Sequence[SelectedTool]) -> list[Data]:
    clean = _are_clean(tools)
    return [_selected(tool, clean=clean) for tool in tools]


def _are_clean(tools: Sequence[SelectedTool]) -> bool:
    """Returns True if no reason of any tool needs redaction. All reasons are checked as one text, which is faster."""
    reasons = dict.fromkeys([reason for tool in tools for reason in tool.reasons[:_REASONS]])
    text = "\n".join(reasons)
    return max(map(len, reasons), default=0) <= TEXT_LIMIT and redact_text(_plain(text)) == text


def _message(message: Message) -> Data:
    """Returns the stored form of an earlier message of the conversation."""
    text = message.text
    row: Data = {"role": message.role, "text": redact_text(_plain(text[: HISTORY_LIMIT + _margin()]))[:HISTORY_LIMIT]}
    if len(text) > HISTORY_LIMIT:
        row["characters"] = len(text)
    if message.tool_calls:
        row["called"] = [_text(call.name) for call in message.tool_calls[:_CALLED]]
    return row


def _selected(selected: SelectedTool, *, clean: bool) -> Data:
    """Returns the stored form of a selected tool. `clean`: True if its reasons need no redaction."""
    reasons = selected.reasons[:_REASONS]
    row: Data = {
        "name": selected.tool.name,
        "category": selected.tool.category,
        "score": round(selected.score, _DIGITS),
        "reasons": list(reasons) if clean else list(map(_text, reasons)),
    }
    if selected.slim:
        row["slim"] = True
    if selected.core:
        row["core"] = True
    return row


def _dropped(tool: DroppedTool) -> Data:
    return {"name": tool.name, "stage": tool.stage, "detail": tool.detail, "score": round(tool.score, _DIGITS)}


def _call(call: ToolCall) -> Data:
    """Data of a call. `arguments_sha256`: digest of the whole arguments, as the model wrote them, if the row has only a part."""
    row = {"id": call.id, "name": _text(call.name), "arguments": _json_or_text(call.arguments)}
    if len(call.arguments) > TEXT_LIMIT:
        row["arguments_sha256"] = hashlib.sha256(call.arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return row


def _result(result: ToolResult) -> Data:
    """Data of a tool's result. `cached`: it is the stored result of an equal call; `tries`: executions, if there were several."""
    row: Data = {"content": _json_or_text(shown_text(result.content)), "bytes": _length(result.content)}
    if media := media_of(result.content):
        row["media"] = [_media_digest(block) for block in media[:_MEDIA]]
    if result.cached:
        row["cached"] = True
    elif result.tries > 1:
        row["tries"] = result.tries
    if result.is_error:
        row["error"] = result.error or "failed"
    return row


def _length(content: Content) -> int:
    """Returns the size of a result: characters of its text, and bytes of its pictures, sounds and files."""
    if isinstance(content, str):
        return len(content)
    return len(text_of(content)) + sum(byte_size(block.data) for block in media_of(content))


def _media_digest(block: Image | Audio | Video | Resource) -> Data:
    """Returns type, size and digest of a picture, sound or file. The digest proves the content without storing it."""
    return {
        "type": block_kind(block),
        "mime_type": _text(block.mime_type),
        "bytes": byte_size(block.data),
        "sha256": hashlib.sha256(_binary(block.data)).hexdigest(),
    }


def _binary(data: str) -> bytes:
    """Returns the decoded base64, or the text itself if it is not base64."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "replace")


def _waiting(item: PendingCall) -> Data:
    return {"id": item.call.id, "name": item.call.name, "waiting": item.waiting}


def _state(state: RunState) -> Data:
    """Returns the counters of a run, which its last row has."""
    return {
        "rounds": state.rounds,
        "calls": state.calls,
        "forced": state.forced,
        "seconds": _round(state.seconds),
        "usage": _usage(state.usage),
        "model": state.model,
        "finish_reason": state.finish_reason,
        "called": state.called[:_NAMES],
    }


def _usage(usage: Usage) -> Data:
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
        "written": usage.written_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def _json_or_text(text: str) -> str:
    """Returns the stored form of a text that is usually JSON, such as arguments: redacted and truncated. In JSON, secret fields
    are recognised by their names."""
    if text[:20].lstrip()[:1] in ("{", "[") and len(text) <= MAX_PARSED:
        return _capped(redact_json(_plain(text)), total=len(text))
    return _text(text)


def _text(text: str) -> str:
    """Returns the stored form of a text: redacted and truncated."""
    if len(text) <= TEXT_LIMIT:
        return redact_text(_plain(text)) if text else text
    return _capped(redact_text(_plain(text[: TEXT_LIMIT + _margin()])), total=len(text))


def _margin() -> int:
    """Returns the number of characters after a limit that are redacted too, because a secret that the limit cuts in two would not
    be recognised."""
    return max(_MARGIN, KNOWN.longest)


def _capped(text: str, *, total: int) -> str:
    """Returns the redacted text, truncated and with a note if the original was too long. `total`: length of the original text."""
    if total <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}… [{min(TEXT_LIMIT, len(text))} of {total} characters kept]"


def _plain(text: str) -> str:
    """Returns the text without zero bytes and halves of surrogate pairs, which some models send and some databases cannot
    store."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _round(number: float) -> float:
    return round(float(number), _DIGITS)
