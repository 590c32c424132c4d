"""Ends a run: marks what its answer says was done and was not, stores the run if it can be resumed, stores its conversation, and
emits the event that records the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcaddie.core.catalog import View
from toolcaddie.core.events import ClaimsUnsupported, Emit, RunFinished, RunPaused
from toolcaddie.core.run import RunRequest, RunResult, Transcript
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.runtime.background import Background
from toolcaddie.runtime.claims import with_claims
from toolcaddie.runtime.conversations import Conversations
from toolcaddie.runtime.coverage import sends_everything
from toolcaddie.runtime.output import Output
from toolcaddie.runtime.setups import Setup
from toolcaddie.storage.runs import Claim, StoredRun
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Ends runs, finished and paused ones."""

    conversations: Conversations
    background: Background
    check_claims: bool = True
    """True: claims of an answer that no call supports are marked."""

    async def end(
        self,
        request: RunRequest,
        result: RunResult,
        view: View,
        setup: Setup,
        emit: Emit,
        *,
        output: Output | None = None,
        store_paused: Callable[[StoredRun], Awaitable[None]],
        claim: Claim | None = None,
    ) -> RunResult:
        """Ends a run and returns its result.

        `store_paused` stores a paused run. `claim` is the claim under which a resumed run continued. The stored state of a
        finished run is deleted only after its end is recorded: a caller who resumes the run in between gets the stored answer.
        """
        waits = result.status == "pending" or (result.status == "client_calls" and request.is_resumable)
        if waits:
            names = setup.offerings.categories(view, request.principal)
            await store_paused(StoredRun(request=storable(request, output), state=result.state, meta_categories=names))
        elif claim is not None:
            await claim.checkpoint(result.state)
        if result.status == "pending":
            if isinstance(request.conversation, Transcript):  # its client has an answer: that it waits
                await self._keep_conversation(request, result, view, setup)
            else:
                await self.conversations.keep_reading(request, result.state)
            await emit(RunPaused(run_id=result.run_id, state=result.state))
            return result
        await self._keep_conversation(request, result, view, setup)
        if self.check_claims:
            result = with_claims(result, view)
            if result.unsupported_claims:
                await emit(ClaimsUnsupported(run_id=result.run_id, claims=result.unsupported_claims))
        await emit(RunFinished(run_id=result.run_id, result=result))
        if claim is not None and not waits:
            if request.is_kept:  # who began it asks for its answer until it is stored, and then forgets it
                await claim.give_back()
            else:
                self.background.begin(claim.forget())
        return result

    async def _keep_conversation(self, request: RunRequest, result: RunResult, view: View, setup: Setup) -> None:
        """Stores what a direct call has read. Of a run, stores the conversation, unless every turn sends all tools and there is
        nothing else to remember."""
        state = result.state
        if state.without_model:
            await self.conversations.keep_reading(request, state)
            return
        waits = state.status == "pending" or state.waits_for
        if waits or state.taint or state.meta or state.categories or not sends_everything(setup.preset, view):
            await self.conversations.keep(request, result)


def storable(request: RunRequest, output: Output | None) -> RunRequest:
    """Returns the request in the form in which it may be stored for weeks: without headers that prove an identity, and without
    live objects. A transcript is omitted unless the run is kept, because no other resumed run answers the client that sent
    it."""
    headers = {name: value for name, value in request.headers.items() if name.lower() not in PROOFS}
    stored = replace(request, headers=headers, dependencies=(), output=None if output is None else output.schema)
    if isinstance(request.conversation, Transcript) and not request.is_kept:
        return replace(stored, conversation=None, remember=False)
    return stored
