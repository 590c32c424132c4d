"""The end of a run: stored where it can be carried on, its conversation kept, and on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcaddie.core.catalog import View
from toolcaddie.core.events import Emit, RunFinished, RunPaused
from toolcaddie.core.run import RunRequest, RunResult, Transcript
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.runtime.background import Background
from toolcaddie.runtime.conversations import Conversations
from toolcaddie.runtime.coverage import sends_everything
from toolcaddie.runtime.output import Output
from toolcaddie.runtime.setups import Setup
from toolcaddie.storage.runs import Claim, StoredRun
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Ends runs."""

    conversations: Conversations
    background: Background

    async def end(
        self,
        request: RunRequest,
        result: RunResult,
        view: View,
        setup: Setup,
        emit: Emit,
        *,
        output: Output | None = None,
        put_away: Callable[[StoredRun], Awaitable[None]],
        claim: Claim | None = None,
    ) -> RunResult:
        """Ends a run. The stored state of one that is over goes only when its end is on record: whoever resumes it in between
        is given the answer that is there. `claim`: that of a run that was carried on."""
        waits = result.status == "pending" or (result.status == "client_calls" and request.is_resumable)
        if waits:
            names = setup.offerings.categories(view, request.principal)
            await put_away(StoredRun(request=_storable(request, output), state=result.state, meta_categories=names))
        elif claim is not None:
            await claim.checkpoint(result.state)
        if result.status == "pending":
            if isinstance(request.conversation, Transcript):  # its client has an answer: that it waits
                self._keep_conversation(request, result, view, setup)
            await emit(RunPaused(run_id=result.run_id, state=result.state))
            return result
        self._keep_conversation(request, result, view, setup)
        await emit(RunFinished(run_id=result.run_id, result=result))
        if claim is not None and not waits:
            self.background.begin(claim.forget())
        return result

    def _keep_conversation(self, request: RunRequest, result: RunResult, view: View, setup: Setup) -> None:
        """Keeps the conversation, unless everything was sent: the next turn finds that by itself."""
        state = result.state
        if state.meta or state.categories or not sends_everything(setup.preset, view):
            self.conversations.keep(request, result)


def _storable(request: RunRequest, output: Output | None) -> RunRequest:
    """Returns the request as it may lie in a database for weeks: without the headers that prove who somebody is, and without
    live objects. A transcript goes too: a run that is carried on does not answer its client."""
    headers = {name: value for name, value in request.headers.items() if name.lower() not in PROOFS}
    stored = replace(request, headers=headers, dependencies=(), output=None if output is None else output.schema)
    if isinstance(request.conversation, Transcript):
        return replace(stored, conversation=None, remember=False)
    return stored
