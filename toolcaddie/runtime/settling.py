"""Settles calls whose outcome is unknown: a person finds out what became of the call, and the run goes on with that.

A process was killed, or a run was cancelled, between the start of a call and its result. Nothing repeats such a call. If the run
can be resumed, the model reads the person's finding instead of a result that says nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace as with_fields

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunNotFoundError
from toolcaddie.core.events import CallSettled, Emit
from toolcaddie.core.run import PendingCall
from toolcaddie.core.storage import EventRecord
from toolcaddie.core.tool import ToolCall, ToolResult, failed
from toolcaddie.ports import EventLog
from toolcaddie.storage.runs import StoredRuns

UNKNOWN, SETTLED = "call_unknown", "call_settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a person found out about a call."""

    took_effect: bool
    text: str = ""
    """What the model should know, such as the number of a booking."""
    reason: str = ""
    """How the person knows; recorded only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """A call that was settled. `resumable`: True if its run is stored, and goes on with the finding when it is resumed."""

    run_id: str
    call_id: str
    tool: str
    took_effect: bool
    resumable: bool


def unknown_calls(records: Sequence[EventRecord]) -> Sequence[EventRecord]:
    """Returns the records of calls whose outcome is unknown and not settled. `records`: those of the kinds `call_unknown`,
    `call_finished` and `call_settled`, in order."""
    unknown: dict[tuple[str, str], EventRecord] = {}
    known: set[tuple[str, str]] = set()
    for record in records:
        call = (record.run_id, record.data["id"])
        if record.kind != UNKNOWN:
            known.add(call)
        elif call not in known:
            unknown.setdefault(call, record)
    return [record for call, record in unknown.items() if call not in known]


class Settling:
    """Settles calls of stored and of ended runs."""

    def __init__(self, log: EventLog, runs: StoredRuns, emit: Emit) -> None:
        self._log = log
        self._runs = runs
        self._emit = emit

    async def settle(self, run_id: str, call_id: str, finding: Finding, *, by: Principal) -> Settlement:
        """Records the finding and who found it, and puts it into the stored run, if there is one.

        Raises `RequestError` if the run has no such call with an unknown outcome, and `RunNotFoundError` if the run is being
        resumed at this moment.
        """
        records = await self._log.events(run_id)
        if not records:
            raise RunNotFoundError(f"nothing is recorded of run {run_id!r}; `toolcaddie runs` lists the recorded runs")
        record = _unknown_call(records, run_id, call_id)
        try:
            stored = await self._runs.find(run_id, None)
        except RunNotFoundError:
            stored = None
        claim = None if stored is None else await self._runs.claim(stored)
        try:
            call = ToolCall(id=call_id, name=record.data["name"], arguments=record.data["arguments"])
            await self._emit(
                CallSettled(
                    run_id=run_id,
                    call=call,
                    took_effect=finding.took_effect,
                    text=finding.text,
                    reason=finding.reason,
                    by=by,
                )
            )
            if stored is not None and claim is not None:
                pending = tuple(_settled(item, call_id, finding) for item in stored.state.pending)
                await claim.checkpoint(with_fields(stored.state, pending=pending))
        finally:
            if claim is not None:
                await claim.give_back()
        return Settlement(
            run_id=run_id,
            call_id=call_id,
            tool=call.name,
            took_effect=finding.took_effect,
            resumable=stored is not None,
        )


def _unknown_call(records: Sequence[EventRecord], run_id: str, call_id: str) -> EventRecord:
    """Returns the record of a call with an unknown outcome. Raises `RequestError` if there is none."""
    of_calls = [record for record in records if record.kind in (UNKNOWN, "call_finished", SETTLED)]
    unknown = {record.data["id"]: record for record in unknown_calls(of_calls)}
    if call_id in unknown:
        return unknown[call_id]
    if any(record.kind == SETTLED and record.data["id"] == call_id for record in of_calls):
        raise RequestError(f"the call {call_id[:80]!r} of run {run_id} is settled already", code="call_settled")
    names = ", ".join(unknown) or "it has none"
    raise RequestError(
        f"run {run_id} has no call {call_id[:80]!r} whose outcome is unknown (unknown are: {names})", code="call_known"
    )


def _settled(item: PendingCall, call_id: str, finding: Finding) -> PendingCall:
    """Returns a call of a stored run, with the finding if it is the one that was settled."""
    if item.call.id != call_id or item.result is None or item.result.error != "unknown_outcome":
        return item
    return with_fields(item, result=result_of(item.call.name, finding))


def result_of(tool: str, finding: Finding) -> ToolResult:
    """Returns the result of a settled call, as the model reads it."""
    text = f" {finding.text}" if finding.text else ""
    if finding.took_effect:
        return ToolResult(content=f"{tool} was interrupted, but a person has checked it: it took effect.{text}")
    return failed(f"{tool} was interrupted, and a person has checked it: it did not take effect.{text}", "not_run")
