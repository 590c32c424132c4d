"""Continues a paused run: its questions are answered, and its calls pass the gates (admission, see `control`) again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from toolcaddie.control.admission import Gates
from toolcaddie.control.approvals import answered_calls
from toolcaddie.control.bots import Bots
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import LimitExceededError, RequestError, RunNotFoundError
from toolcaddie.core.events import ApprovalClosed, Emit, RunResumed
from toolcaddie.core.run import PendingCall, RunContext, RunRequest, RunResult, RunState, RunStatus
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import ToolResult
from toolcaddie.core.transcript import without_calls
from toolcaddie.engine.engine import Admit
from toolcaddie.engine.failures import end_recorded
from toolcaddie.engine.loop import drive
from toolcaddie.runtime.budgets import Budgets
from toolcaddie.runtime.bus import EventBus, Listener
from toolcaddie.runtime.contexts import context_of
from toolcaddie.runtime.conversations import Conversation
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.runtime.ending import Ending
from toolcaddie.runtime.output import Output, stored_output, with_output, with_value
from toolcaddie.runtime.planning import taint_of
from toolcaddie.runtime.setups import Setups
from toolcaddie.runtime.views import Views
from toolcaddie.sources.tenants import TenantCatalogs
from toolcaddie.storage.runs import StoredRun, StoredRuns
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The next turn of the conversation of a run that waits: its request, and what the conversation was sent and has read
    before."""

    request: RunRequest
    before: Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming:
    """Resumes paused runs."""

    setups: Setups
    catalogs: TenantCatalogs
    views: Views
    bots: Bots
    budgets: Budgets
    gates: Gates
    bus: EventBus
    runs: StoredRuns
    ending: Ending
    dependencies: Dependencies
    output: Output | None
    stopping: Callable[[], bool]

    async def resume(
        self,
        run_id: str,
        *,
        approvals: Mapping[str, bool],
        results: Mapping[str, str],
        principal: Principal | None,
        reason: str,
        dependencies: Sequence[Any],
        headers: Mapping[str, str] | None = None,
        live: Listener | None = None,
        turn: Turn | None = None,
    ) -> RunResult:
        """Resumes a run and returns its result. `live` receives the further events of the run.

        `approvals` (True: approved) and `results` (of tools that the caller ran) have the answers for which the run waited, by
        call id. `reason` is recorded with the approvals. `principal`: the run must belong to it; None: the run may belong to
        anyone. `dependencies`: the objects for the functions of the run; the caller supplies them again, because
        they are not stored with the run. `headers`: those for the model, in place of the stored ones. `turn`: the next turn of
        the run's conversation, which the run then answers.
        """
        stored = await self.runs.find(run_id, principal)
        identified = self.bots.identified(stored.request.principal if principal is None else principal)
        request = (
            replace(stored.request, principal=identified, dependencies=dependencies) if turn is None else turn.request
        )
        if headers is not None:
            request = replace(request, headers=headers)
        async with (
            self.catalogs.held(request.principal.tenant) if request.use_catalog else nullcontext(),
            self.budgets.charged(request, self.setups.model_of(request), requests=0 if turn is None else 1) as charge,
        ):
            told = charge.counted(self.bus.emitter(live))
            return await self._resume(
                stored,
                request,
                told,
                charge.admit,
                approvals,
                results,
                principal,
                reason,
                live=live is not None,
                turn=turn,
            )

    async def _resume(
        self,
        stored: StoredRun,
        request: RunRequest,
        told: Emit,
        admit: Admit | None,
        approvals: Mapping[str, bool],
        results: Mapping[str, str],
        principal: Principal | None,
        reason: str,
        *,
        live: bool,
        turn: Turn | None,
    ) -> RunResult:
        """Resumes a stored run, which passes its events to `told`, and asks `admit` before each model call. `live`: True if
        somebody listens to it."""
        run_id = stored.state.run_id
        output = stored_output(request.output, self.output)
        setup = self.setups.of(request)
        view = self.views.again(request)
        context = context_of(replace(request, run_id=run_id), view, self.setups.model_of(request), self.dependencies)
        engine = setup.offerings.resumed(stored.meta_categories, context.principal)
        if output is not None:
            engine = with_output(engine, output)
        # Answered last: an answer is used once, so nothing that is refused may use it up.
        decided = await answered_calls(
            tuple(_handed_in(item, results) for item in stored.state.pending),
            approvals,
            self.gates.approvals,
            tenant=stored.request.principal.tenant,
            policy_version=self.gates.policy.version,
            by=principal,
            reason=reason,
        )
        _check_complete(run_id, decided.calls)
        state = _state(stored.state, decided.calls, context)
        if turn is not None:
            state = _in_turn(state, turn, context)
        answered = tuple(item.call.id for item in stored.state.pending if item.waiting)
        claim = await self.runs.claim(stored)
        if request.survives:
            self.runs.note_late(run_id)
        try:
            async with end_recorded(run_id, told, acted=bool(state.called), stopping=self.stopping) as emit:
                await emit(RunResumed(run_id=run_id, principal=context.principal, answered=answered))
                for approval in decided.expired:
                    await emit(ApprovalClosed(run_id=run_id, approval=approval))
                checkpoint = self.ending.conversations.checkpoint(request, then=claim.checkpoint)
                result = await drive(
                    engine, state, context, Selection(), emit, live=live, admit=admit, checkpoint=checkpoint
                )
                result = with_value(result, output)
                return await self.ending.end(
                    request, result, view, setup, emit, output=output, store_paused=claim.store_paused, claim=claim
                )
        except LimitExceededError:
            if not request.is_kept:  # a person may raise the limit and resume the run
                await claim.give_back()
            else:
                await claim.forget()
            raise
        except BaseException:
            await claim.give_back()
            raise

    async def questions(self, run_id: str) -> Sequence[Approval]:
        """Returns the questions for whose answers the calls of a paused run wait."""
        stored = await self.runs.find(run_id, None)
        waiting = [item.approval for item in stored.state.pending if item.waiting == "approval"]
        tenant = stored.request.principal.tenant
        found = [await self.gates.approvals.get(tenant, approval_id) for approval_id in waiting]
        return [approval for approval in found if approval is not None]

    async def waiting(self, run_id: str) -> RunResult:
        """Returns the result of a run that waits, as it was when it paused. Raises `RunNotFoundError`."""
        state = (await self.runs.find(run_id, None)).state
        return RunResult(run_id=run_id, status="pending", text=state.text, state=state)

    async def is_answered(self, run_id: str, principal: Principal) -> bool:
        """Returns True if a run of this principal waits, and none of its questions is open."""
        try:
            stored = await self.runs.find(run_id, principal)
        except RunNotFoundError:
            return False
        waiting = [item for item in stored.state.pending if item.waiting]
        for item in waiting:
            approval = await self.gates.approvals.get(principal.tenant, item.approval) if item.approval else None
            if approval is None or approval.status == "open":
                return False
        return bool(waiting)


def _in_turn(state: RunState, turn: Turn, context: RunContext) -> RunState:
    """Returns the state of a run that waited, as part of the next turn of its conversation: the calls that waited now follow the
    messages of that turn. What the conversation has read while the run waited taints it too."""
    asked = next((message for message in reversed(state.messages) if message.tool_calls), None)
    messages = tuple(turn.request.messages) if asked is None else without_calls(turn.request.messages, asked)
    read = taint_of(messages, context.view, turn.before)
    return replace(
        state,
        messages=(*messages, *([] if asked is None else [asked])),
        first_new=len(messages),
        waits_for="",
        taint=tuple(dict.fromkeys((*state.taint, *read))),
    )


def _handed_in(item: PendingCall, results: Mapping[str, str]) -> PendingCall:
    """Returns a waiting call with its result, if the caller supplied one in `results`."""
    if item.waiting == "client" and item.call.id in results:
        return replace(item, result=ToolResult(content=results[item.call.id]), waiting="")
    return item


def _check_complete(run_id: str, pending: tuple[PendingCall, ...]) -> None:
    """Raises `RequestError` if a call still has neither an approval nor a result."""
    waiting = [item.call.id for item in pending if item.waiting]
    if waiting:
        raise RequestError(
            f"run {run_id} still waits for {', '.join(waiting)}; give each an approval or a result", param="approvals"
        )


def _state(stored: RunState, pending: tuple[PendingCall, ...], context: RunContext) -> RunState:
    """Returns the state to continue from, without tools that no longer exist, and tainted by results of untrusted tools that the
    caller ran. If the run was completed and only its end was not recorded, the state stays completed."""
    handed_in = (
        item.call.name for item, before in zip(pending, stored.pending, strict=True) if before.waiting == "client"
    )
    untrusted = (name for name in handed_in if (tool := context.view.get(name)) is None or tool.untrusted)
    taint = tuple(dict.fromkeys((*stored.taint, *untrusted)))
    status: RunStatus = "completed" if stored.status == "completed" else "running"
    delivered = tuple(sent for sent in stored.delivered if context.view.get(sent.name) is not None)
    return replace(stored, status=status, pending=pending, delivered=delivered, taint=taint)
