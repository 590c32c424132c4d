"""One tool called without a model, through every gate."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.control.admission import Admitted, admit
from toolcaddie.core.content import shown_text
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import Emit, RunFinished
from toolcaddie.core.run import PendingCall, RunContext, RunRequest, RunResult, RunState
from toolcaddie.core.tool import ToolCall, ToolResult
from toolcaddie.engine.batch import Batch, unkept
from toolcaddie.engine.broken import end_recorded
from toolcaddie.runtime.answering import started
from toolcaddie.runtime.bus import EventBus
from toolcaddie.runtime.dependencies import Dependencies
from toolcaddie.runtime.requests import context_of
from toolcaddie.runtime.setups import Setup, Setups
from toolcaddie.runtime.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """Calls tools directly."""

    setups: Setups
    views: Views
    bus: EventBus
    dependencies: Dependencies

    async def call(self, name: str, arguments: Mapping[str, Any], request: RunRequest) -> ToolResult:
        """Calls a tool for the principal of `request`, on record as a run of its own."""
        if not isinstance(arguments, Mapping):
            raise RequestError(f"arguments must be a dict by name, not {arguments!r:.80}", param="arguments")
        setup = self.setups.of(request)
        context = context_of(request, self.views.of(request), self.setups.model_of(request), self.dependencies)
        emit = self.bus.emitter()
        call = ToolCall(id=f"call_{uuid.uuid4().hex}", name=name, arguments=msgspec.json.encode(arguments).decode())
        async with end_recorded(context.run_id, emit):
            await emit(started(request, context, setup.preset))
            gated = await admit(
                PendingCall(call=call),
                gates=setup.engine.gates,
                context=context,
                state=RunState(run_id=context.run_id),
                emit=emit,
            )
            if isinstance(gated, Admitted):
                result = await _carried_out(gated, context, setup, emit)
            else:
                waits = ToolResult(content="The call waits for a person.", is_error=True, error="denied")
                result = gated.result or waits
            state = RunState(run_id=context.run_id, status="completed", turns=1, text=shown_text(result.content))
            finished = RunResult(run_id=context.run_id, status="completed", text=state.text, state=state)
            await emit(RunFinished(run_id=context.run_id, result=finished))
        return result


async def _carried_out(call: Admitted, context: RunContext, setup: Setup, emit: Emit) -> ToolResult:
    """Carries out one call as the turn of a run that has no other."""
    batch = Batch(
        setup.engine.executor,
        context,
        setup.preset.limits,
        emit,
        admitted={0: call},
        taken=0,
        outcomes=[PendingCall(call=call.call)],
        before_acting=unkept,
    )
    await batch.run(together=False)
    result = batch.entered()[0].result
    assert result is not None, "a batch that ends has a result of every call"
    return result
