"""Calls one tool without a model. The call is a run with one call in it, with the gates, limits, trail and stored states of every
run. `Runtime.call` and `ToolDesk` use this."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.client import CallerClient
from toolcaddie.core.errors import RequestError
from toolcaddie.core.run import PendingCall, RunRequest, RunResult, RunState
from toolcaddie.core.selection import Selection
from toolcaddie.core.tool import ToolCall, ToolResult, failed
from toolcaddie.desk import ToolDesk
from toolcaddie.engine.failures import end_recorded
from toolcaddie.engine.loop import drive
from toolcaddie.ports import Store
from toolcaddie.runtime.answering import started
from toolcaddie.runtime.bus import EventBus, Listener
from toolcaddie.runtime.contexts import context_of
from toolcaddie.runtime.conversations import Conversations
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.runtime.ending import Ending
from toolcaddie.runtime.setups import Setups
from toolcaddie.runtime.views import Views
from toolcaddie.sources.tenants import TenantCatalogs
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """Calls tools without a model."""

    setups: Setups
    catalogs: TenantCatalogs
    views: Views
    conversations: Conversations
    bus: EventBus
    dependencies: Dependencies
    runs: StoredRuns
    documents: Store
    ending: Ending
    stopping: Callable[[], bool]

    def desk(self, request: RunRequest) -> ToolDesk:
        """Returns the desk of a request's principal: the tools that the principal may see at this moment."""
        setup = self.setups.of(request)
        return ToolDesk(
            request=request,
            view=self.views.of(request),
            selector=setup.selector,
            prepare=setup.engine.prepare,
            caller=self,
            page_size=setup.preset.page_size,
            held=setup.engine.held,
        )

    async def taint(self, request: RunRequest, *, seconds: float | None = None) -> Sequence[str]:
        """Returns the tools whose untrusted results the conversation of a request has read. See `Conversations.taint`."""
        return await self.conversations.taint(request, seconds=seconds)

    async def add_taint(self, request: RunRequest, names: Sequence[str]) -> None:
        """Remembers that the conversation of a request has read results of these untrusted tools."""
        await self.conversations.add_taint(request, names)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        request: RunRequest,
        view: View,
        *,
        taint: Sequence[str] | None = None,
        live: Listener | None = None,
        client: CallerClient | None = None,
    ) -> ToolResult:
        """Calls a tool of the view for the principal of `request`. If a person must approve the call, the run pauses: the
        same call, made again, runs once the person has approved it.

        `taint`: the tools whose untrusted results the caller has read; None: those of the request's conversation. `live` receives
        the events of the call; `client` answers the tool's questions."""
        if not isinstance(arguments, Mapping):
            raise RequestError(f"arguments must be a dict by name, not {arguments!r:.80}", param="arguments")
        if request.run_id:
            await self.runs.check_free(request.run_id)
        setup = self.setups.of(request)
        context = context_of(request, view, self.setups.model_of(request), self.dependencies)
        context = context if client is None else replace(context, client=client)
        read = await self.conversations.taint(request) if taint is None else taint
        # As JSON text, like a model's: what reaches the tool is then the same whoever calls it.
        text = msgspec.json.encode(arguments).decode()
        pending = PendingCall(call=ToolCall(id=f"call_{uuid.uuid4().hex}", name=name, arguments=text))
        state = RunState(run_id=context.run_id, pending=(pending,), without_model=True, taint=tuple(read))
        owner = await self.documents.lease()
        async with (
            self.catalogs.held(request.principal.tenant),
            end_recorded(context.run_id, self.bus.emitter(live), stopping=self.stopping) as emit,
        ):
            await emit(replace(started(request, context, setup.preset), message=f"{name}, called directly"))
            result = await drive(setup.engine, state, context, Selection(), emit, live=False)
            store_paused = partial(self.runs.store_paused, owner=owner)
            return _of(await self.ending.end(request, result, view, setup, emit, store_paused=store_paused))


def _of(result: RunResult) -> ToolResult:
    """Returns the result of the only call of a run."""
    (outcome,) = result.state.pending
    if outcome.result is not None:
        return outcome.result
    if outcome.waiting == "client":
        return failed(f"{outcome.call.name} is the caller's own tool; run it there.", "denied")
    return _waits(outcome.approval, result.run_id)


def _waits(approval_id: str, run_id: str) -> ToolResult:
    return failed(
        f"The call waits for a person's approval: {approval_id} (run {run_id}). Make the same call again once it is answered.",
        "denied",
    )
